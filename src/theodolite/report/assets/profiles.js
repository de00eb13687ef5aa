// Layer profiles: one measure at a time, with one line per population and a mark at the chosen layer.
(() => {
  const { el } = theodolite;

  theodolite.section("profiles", (mount) => {
    const controls = el("div", { class: "controls" });
    const measure = theodolite.select("Measure", [], "", (value) => theodolite.choose({ measure: value }));
    const scale = theodolite.select("Axis", [["auto", "automatic"], ["linear", "linear"], ["log", "logarithmic"]], "auto", () => update(null));
    theodolite.storeControl("profiles.axis", scale.box);
    const shown = {};
    const keepShown = {};
    const lines = el("fieldset", { class: "control checks" }, el("legend", {}, "Populations"));
    const meaning = el("p", { class: "meaning", "aria-live": "polite" });
    const figure = theodolite.figure({
      title: "Layer by layer",
      shows: ["survey"],
      caption: "",
      file: "profile",
      height: 380,
      describe: () => theodolite.describeRanges(latest),
      table: () => {
        const { layers, populations } = theodolite.survey();
        const column = theodolite.state.measure;
        const rows = populations.flatMap((population) => {
          const values = theodolite.profile(column, population);
          const se = theodolite.profile(`${column}_se`, population);
          return values ? layers.map((layer, at) => [layer.layer, layer.name, population, values[at], se ? se[at] : NaN]) : [];
        });
        return { columns: ["layer", "layer_name", "population", column, `${column}_se`], rows };
      },
    });
    let latest = [];
    controls.append(measure.el, scale.el, lines);
    mount.append(controls, meaning, figure.el);
    figure.plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      theodolite.choose({ layer: theodolite.state.layer + step });
    });

    const options = () => {
      const survey = theodolite.survey();
      const present = new Set(survey.populations.flatMap((name) => Object.keys(survey.profiles[name].columns)));
      return theodolite.data.measures
        .map(({ group, columns }) => ({ group, options: columns.filter(([name]) => present.has(name)) }))
        .filter((entry) => entry.options.length);
    };
    const fill = () => {
      const survey = theodolite.survey();
      const fresh = theodolite.select("Measure", options(), theodolite.state.measure, () => {});
      measure.box.replaceChildren(...fresh.box.children);
      measure.set(theodolite.state.measure);
      lines.replaceChildren(
        lines.firstChild,
        ...survey.populations.map((name) => {
          if (!(name in shown)) {
            shown[name] = true;
            keepShown[name] = theodolite.storeChoice(`profiles.show.${name}`, (word) => (shown[name] = word !== "no"));
          }
          const box = el("input", { type: "checkbox", checked: shown[name], onchange: () => ((shown[name] = box.checked), keepShown[name](box.checked ? undefined : "no"), update(null)) });
          return el("label", {}, box, ` ${name}`);
        }),
      );
    };
    const update = (changed) => {
      if (!changed || changed.has("survey")) fill();
      const { layers, populations } = theodolite.survey();
      const column = theodolite.state.measure;
      measure.set(column);
      const entry = theodolite.measure(column);
      meaning.replaceChildren(entry.meaning, ...(entry.href ? [" ", el("a", { href: entry.href }, "Definition")] : []));
      figure.title(entry.label, "One line per population. Bars show one standard error, if known.");
      const traces = populations
        .filter((name) => shown[name] && theodolite.profile(column, name))
        .map((name) => {
          const style = theodolite.populationStyle(name, populations);
          return {
            type: "scatter", mode: "lines+markers", name: theodolite.escapeText(name), x: layers.map((_, at) => at), y: theodolite.profile(column, name),
            error_y: theodolite.errorBars(column, theodolite.profile(column, name), theodolite.profile(`${column}_se`, name)), line: { color: style.colour, dash: style.dash, width: 2 },
            marker: { color: style.colour, symbol: style.sign, size: 7, line: { width: 1.4, color: style.colour } },
            text: layers.map((layer) => theodolite.escapeText(layer.name)), customdata: Array.from(theodolite.profile(column, name), (value) => theodolite.formatNumber(value)),
            hovertemplate: `%{text}<br>%{customdata}<extra>${theodolite.escapeText(name)}</extra>`,
          };
        });
      latest = traces;
      if (!traces.length) {
        figure.showMessage(`${entry.label} is undefined. ${theodolite.reason(column, populations[0])}`);
        return;
      }
      const values = traces.flatMap((trace) => Array.from(trace.y)).filter(Number.isFinite);
      const wide = !entry.bounded && Math.min(...values) > 0 && Math.max(...values) > 50 * Math.min(...values);
      const log = scale.box.value === "log" || (scale.box.value === "auto" && wide);
      figure.draw(traces, {
        showlegend: true,
        xaxis: theodolite.layerAxis(layers, figure.plot.clientWidth),
        yaxis: { ...theodolite.valueAxis(column, values, log), title: { text: entry.label, standoff: 8 } },
        shapes: [theodolite.layerMark()],
      });
    };
    return { update };
  });
})();

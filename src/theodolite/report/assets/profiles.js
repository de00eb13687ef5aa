// Layer profiles: one measure at a time, with one line per population and a mark at the chosen layer.
(() => {
  const { el } = theodolite;

  // Bars of one standard error.
  const errors = (column, population) => {
    const found = theodolite.profile(`${column}_se`, population);
    return found && { type: "data", array: Array.from(found, (value) => (Number.isFinite(value) ? value : 0)), visible: true, thickness: 1, width: 3 };
  };

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
            error_y: errors(column, name), line: { color: style.colour, dash: style.dash, width: 2 },
            marker: { color: style.colour, symbol: style.sign, size: 7, line: { width: 1.4, color: style.colour } },
            text: layers.map((layer) => theodolite.escapeText(layer.name)), hovertemplate: `%{text}<br>%{y:.5~g}<extra>${theodolite.escapeText(name)}</extra>`,
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
        yaxis: { type: log ? "log" : "linear", title: { text: entry.label, standoff: 8 }, ...(log ? {} : { rangemode: "tozero" }) },
        shapes: [theodolite.layerMark()],
      });
    };
    return { update };
  });

  // An axis of layers by number, the first and the last by name; as many labels as fit the width.
  theodolite.layerAxis = (layers, width = 1000) => {
    const last = layers.length - 1;
    const step = Math.max(1, Math.ceil(layers.length / Math.min(16, Math.max(4, Math.floor(width / 48)))));
    const ticks = layers.map((_, at) => at).filter((at) => at === last || (at % step === 0 && (at === 0 || last - at >= step)));
    const tight = width / ticks.length < 72;
    const short = (name) => (tight ? name.replace("embeddings", "emb.") : name).replace("block ", "");
    const safe = (name) => theodolite.escapeText(name).replaceAll(" ", "<br>");
    const word = (at) => safe(short(layers[at].name));
    return { tickvals: ticks, ticktext: ticks.map(word), tickangle: 0, title: { text: last > 0 ? "block" : "", standoff: 8 }, range: [-0.4, layers.length - 0.6] };
  };
  theodolite.layerMark = () => ({
    type: "line", x0: theodolite.state.layer, x1: theodolite.state.layer, y0: 0, y1: 1, yref: "paper",
    line: { color: theodolite.colour("quiet"), width: 1, dash: "dot" }, layer: "below",
  });
})();

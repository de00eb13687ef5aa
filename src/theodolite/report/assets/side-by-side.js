// Several surveys on one axis: the embeddings of each are at 0, its last block is at 1, a final norm one layer further.
(() => {
  const { el } = theodolite;

  // Measures that count dimensions: as a share of the coordinates they compare models of different width.
  const DIMENSIONS = /^(effective_rank|participation_ratio|stable_rank|twonn|twonn_ml|mle_dim|rogue_half|pca_dim_\d+)$/;

  theodolite.section("side-by-side", (mount) => {
    const surveys = theodolite.data.surveys;
    const measure = theodolite.select("Measure", [], "", (value) => theodolite.choose({ measure: value }));
    const scale = theodolite.select("Axis", [["auto", "automatic"], ["linear", "linear"], ["log", "logarithmic"]], "auto", () => update(null));
    const box = el("input", { type: "checkbox", onchange: () => update(null) });
    theodolite.storeControl("side-by-side.axis", scale.box);
    theodolite.storeControl("side-by-side.share", box);
    const width = el("label", {}, box, " as a share of the coordinates");
    const widths = el("fieldset", { class: "control checks" }, el("legend", {}, "Width"), width);
    const meaning = el("p", { class: "meaning", "aria-live": "polite" });
    const note = el("p", { class: "quiet", "aria-live": "polite" });
    const figure = theodolite.figure({
      title: "Side by side",
      shows: [],
      file: "side-by-side",
      height: 400,
      describe: () => theodolite.describeRanges(lines().map((line) => ({ name: line.survey.name, y: line.y }))),
      table: () => ({
        columns: ["survey", "population", "layer", "layer_name", "depth", unit(), `${unit()}_se`],
        rows: lines().flatMap(({ survey, population, y, se }) =>
          survey.layers.map((layer, at) => [survey.name, population, layer.layer, layer.name, layer.depth, y[at], se ? se[at] : NaN]),
        ),
      }),
    });
    mount.append(el("div", { class: "controls" }, measure.el, scale.el, widths), meaning, figure.el, note);

    const dividing = () => box.checked && DIMENSIONS.test(theodolite.state.measure);
    const unit = () => theodolite.state.measure + (dividing() ? "_of_dim" : "");
    const divided = (values, dims) => (values && dims ? values.map((value, at) => value / dims[at]) : values);
    // The measure of each survey: for the chosen population, else for the first that has it.
    const lines = () =>
      surveys.flatMap((survey, place) => {
        const column = theodolite.state.measure;
        const wanted = [theodolite.state.population, ...survey.populations];
        const population = wanted.find((name) => theodolite.profile(column, name, survey));
        if (!population) return [];
        const read = (name) => theodolite.profile(name, population, survey);
        const dims = dividing() ? read("dim") : null;
        if (dividing() && !dims) return [];
        return [{ survey, place, population, y: divided(read(column), dims), se: divided(read(`${column}_se`), dims) }];
      });

    const fill = () => {
      const present = new Set(surveys.flatMap((survey) => survey.populations.flatMap((name) => Object.keys(survey.profiles[name].columns))));
      const options = theodolite.data.measures
        .map(({ group, columns }) => ({ group, options: columns.filter(([name]) => present.has(name)) }))
        .filter((entry) => entry.options.length);
      measure.box.replaceChildren(...theodolite.select("", options, theodolite.state.measure, () => {}).box.children);
    };
    // A line breaks between an encoder and its decoder.
    const stack = (layer) => layer.name.replace(/(embeddings|block \d+|final norm)$/, "");
    const breakAtStacks = (layers, values) =>
      layers.flatMap((layer, at) => (at && stack(layer) !== stack(layers[at - 1]) ? [null, values[at]] : [values[at]]));
    const traceOf = ({ survey, place, population, y, se }) => {
      const style = theodolite.lineStyle(place);
      const other = population === theodolite.state.population ? "" : ` (${population})`;
      const name = theodolite.escapeText(survey.name + other);
      const along = (values) => breakAtStacks(survey.layers, values);
      return {
        type: "scatter", mode: "lines+markers", cliponaxis: false, name, x: along(survey.layers.map((layer) => layer.depth)), y: along(y),
        error_y: theodolite.errorBars(unit(), along(y), se && along(se)), customdata: along(y).map((value) => theodolite.formatNumber(value)),
        line: { color: style.colour, dash: style.dash, width: 2 },
        marker: { color: style.colour, symbol: style.sign, size: 7, line: { width: 1.4, color: style.colour } },
        text: along(survey.layers.map((layer) => theodolite.escapeText(layer.name))),
        hovertemplate: `${name}<br>%{text}: %{customdata}<extra></extra>`,
      };
    };
    // The chosen layer of the chosen survey.
    const mark = () => {
      const layer = theodolite.survey().layers[theodolite.state.layer];
      const x = layer ? layer.depth : 1;
      return { type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", layer: "below", line: { color: theodolite.colour("quiet"), width: 1, dash: "dot" } };
    };
    const describeMissing = (found) => {
      const { measure: column, population } = theodolite.state;
      const absent = surveys.filter((survey) => !found.some((line) => line.survey === survey));
      const others = found.filter((line) => line.population !== population);
      return [
        ...others.map((line) => `${line.survey.name} does not have this measure for the population ${population}; ${line.population} is drawn.`),
        ...absent.map((survey) => `${survey.name} is not drawn: ${theodolite.reason(column, survey.populations[0], survey)}`),
      ].join(" ");
    };
    const update = (changed) => {
      if (!changed) fill();
      const entry = theodolite.measure(theodolite.state.measure);
      measure.set(theodolite.state.measure);
      widths.hidden = !DIMENSIONS.test(theodolite.state.measure);
      meaning.replaceChildren(entry.meaning, ...(entry.href ? [" ", el("a", { href: entry.href }, "Definition")] : []));
      const found = lines();
      note.textContent = describeMissing(found);
      const head = dividing() ? `${entry.label} / coordinates` : entry.label;
      figure.title(head, `One line per survey. Population ${theodolite.state.population}. Bars show one standard error, if known.`);
      if (!found.length) {
        figure.showMessage(`${entry.label} is not defined in any of these surveys.`);
        return;
      }
      const values = found.flatMap((line) => Array.from(line.y)).filter(Number.isFinite);
      // A logarithmic axis cannot show an error bar that reaches 0.
      const below = found.flatMap((line) => (line.se ? Array.from(line.y, (value, at) => value - line.se[at]) : [])).filter(Number.isFinite);
      const wide = !theodolite.measure(theodolite.state.measure).bounded && Math.min(...values, ...below) > 0 && Math.max(...values) > 50 * Math.min(...values);
      const log = scale.box.value === "log" || (scale.box.value === "auto" && wide);
      const deepest = Math.max(1, ...found.flatMap(({ survey }) => survey.layers.map(({ depth }) => depth)));
      figure.draw(found.map(traceOf), {
        showlegend: true,
        xaxis: { title: { text: "depth: 0 embeddings, 1 last block", standoff: 8 }, range: [-0.03, deepest + 0.03] },
        yaxis: { ...theodolite.valueAxis(unit(), values, log), title: { text: theodolite.escapeText(head), standoff: 8 } },
        shapes: [mark()],
      });
    };
    return { update };
  });
})();

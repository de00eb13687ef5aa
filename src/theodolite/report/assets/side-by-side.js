// Several surveys on one axis: the embeddings of each at 0, its last block at 1, a final norm one layer further.
(() => {
  const { el } = theodolite;

  // Numbers of dimensions: a share of the coordinates that there are compares models of different width.
  const counted = /^(effective_rank|participation_ratio|stable_rank|twonn|twonn_ml|mle_dim|rogue_half|pca_dim_\d+)$/;

  theodolite.part("side-by-side", (mount) => {
    const surveys = theodolite.data.surveys;
    const measure = theodolite.select("Measure", [], "", (value) => theodolite.choose({ measure: value }));
    const scale = theodolite.select("Axis", [["auto", "as it fits"], ["linear", "linear"], ["log", "logarithmic"]], "auto", () => update(null));
    const box = el("input", { type: "checkbox", onchange: () => update(null) });
    theodolite.keepBox("side-by-side.axis", scale.box);
    theodolite.keepBox("side-by-side.share", box);
    const width = el("label", {}, box, " as a share of the coordinates");
    const widths = el("fieldset", { class: "control checks" }, el("legend", {}, "Width"), width);
    const meaning = el("p", { class: "meaning", "aria-live": "polite" });
    const told = el("p", { class: "quiet", "aria-live": "polite" });
    const figure = theodolite.figure({
      title: "Side by side",
      shows: [],
      file: "side-by-side",
      height: 400,
      describe: () => theodolite.spans(lines().map((line) => ({ name: line.survey.name, y: line.y }))),
      table: () => ({
        columns: ["survey", "population", "layer", "layer_name", "depth", unit(), `${unit()}_se`],
        rows: lines().flatMap(({ survey, population, y, se }) =>
          survey.layers.map((layer, at) => [survey.name, population, layer.layer, layer.name, layer.depth, y[at], se ? se[at] : NaN]),
        ),
      }),
    });
    mount.append(el("div", { class: "controls" }, measure.el, scale.el, widths), meaning, figure.el, told);

    const dividing = () => box.checked && counted.test(theodolite.state.measure);
    const unit = () => theodolite.state.measure + (dividing() ? "_of_dim" : "");
    const divided = (values, dims) => (values && dims ? values.map((value, at) => value / dims[at]) : values);
    // What each survey has of the measure: of the population that is chosen, else of its first that tells it.
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
    // A line breaks between an encoder and its decoder: what follows is no next layer.
    const stack = (layer) => layer.name.replace(/(embeddings|block \d+|final norm)$/, "");
    const broken = (layers, values) =>
      layers.flatMap((layer, at) => (at && stack(layer) !== stack(layers[at - 1]) ? [null, values[at]] : [values[at]]));
    const traceOf = ({ survey, place, population, y, se }) => {
      const look = theodolite.look(place);
      const other = population === theodolite.state.population ? "" : ` (${population})`;
      const name = theodolite.words(survey.name + other);
      const along = (values) => broken(survey.layers, values);
      return {
        type: "scatter", mode: "lines+markers", cliponaxis: false, name, x: along(survey.layers.map((layer) => layer.depth)), y: along(y),
        error_y: se && { type: "data", array: along(se).map((value) => (Number.isFinite(value) ? value : 0)), visible: true, thickness: 1, width: 3 },
        line: { color: look.colour, dash: look.dash, width: 2 },
        marker: { color: look.colour, symbol: look.sign, size: 7, line: { width: 1.4, color: look.colour } },
        text: along(survey.layers.map((layer) => theodolite.words(layer.name))),
        hovertemplate: `${name}<br>%{text}: %{y:.5~g}<extra></extra>`,
      };
    };
    // The layer that is chosen, on the line of its survey.
    const mark = () => {
      const layer = theodolite.survey().layers[theodolite.state.layer];
      const x = layer ? layer.depth : 1;
      return { type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", layer: "below", line: { color: theodolite.colour("quiet"), width: 1, dash: "dot" } };
    };
    const lacking = (found) => {
      const { measure: column, population } = theodolite.state;
      const absent = surveys.filter((survey) => !found.some((line) => line.survey === survey));
      const others = found.filter((line) => line.population !== population);
      return [
        ...others.map((line) => `${line.survey.name} has no ${population} for this; ${line.population} is drawn.`),
        ...absent.map((survey) => `${survey.name} is not drawn: ${theodolite.reason(column, survey.populations[0], survey)}`),
      ].join(" ");
    };
    const update = (changed) => {
      if (!changed) fill();
      const entry = theodolite.measure(theodolite.state.measure);
      measure.set(theodolite.state.measure);
      widths.hidden = !counted.test(theodolite.state.measure);
      meaning.replaceChildren(entry.meaning, ...(entry.href ? [" ", el("a", { href: entry.href }, "Definition")] : []));
      const found = lines();
      told.textContent = lacking(found);
      const head = dividing() ? `${entry.label} / coordinates` : entry.label;
      figure.title(head, theodolite.said("One line a survey, of the positions chosen above; bars are one standard error, where there is one."));
      if (!found.length) {
        figure.none(`${entry.label} is defined in none of these surveys.`);
        return;
      }
      const values = found.flatMap((line) => Array.from(line.y)).filter(Number.isFinite);
      // A logarithm has no place for an error bar that reaches 0.
      const below = found.flatMap((line) => (line.se ? Array.from(line.y, (value, at) => value - line.se[at]) : [])).filter(Number.isFinite);
      const wide = !theodolite.measure(theodolite.state.measure).bounded && Math.min(...values, ...below) > 0 && Math.max(...values) > 50 * Math.min(...values);
      const log = scale.box.value === "log" || (scale.box.value === "auto" && wide);
      const deepest = Math.max(1, ...found.flatMap(({ survey }) => survey.layers.map(({ depth }) => depth)));
      figure.draw(found.map(traceOf), {
        showlegend: true,
        xaxis: { title: { text: "depth: 0 embeddings, 1 last block", standoff: 8 }, range: [-0.03, deepest + 0.03] },
        yaxis: { type: log ? "log" : "linear", title: { text: theodolite.words(head), standoff: 8 }, ...(log ? {} : { rangemode: "tozero" }) },
        shapes: [mark()],
      });
    };
    return { update };
  });
})();

// Groups of documents by a field: a measure of every group by layer, a number of all pairs at one layer, and a table.
(() => {
  const { el } = theodolite;
  const FEW = 14; // groups with a legend and a style of their own; more are thin lines, named when pointed at
  const measures = ["mean_cosine", "q", "m", "v", "v_within", "v_between", "effective_rank", "participation_ratio", "anisotropy_svd", "norm_p50"];
  const short = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

  theodolite.section("groups", (mount) => {
    const measure = theodolite.select("Measure", measures.map((name) => [name, theodolite.measure(name).label]), "mean_cosine", () => update(null));
    const pair = theodolite.select("Pairs", [], "", () => update(null));
    theodolite.storeControl("groups.measure", measure.box);
    const found = () => theodolite.survey().groups;
    const column = (name) => theodolite.column((found().columns[theodolite.state.population] || {})[name]);
    const value = (name, layer, group) => (column(name) || [])[layer * found().names.length + group];
    const rows = (columns) => theodolite.survey().layers.flatMap((layer, at) => found().names.map((name, group) => [layer.layer, layer.name, name, ...columns.map((one) => value(one, at, group))]));
    const lines = theodolite.figure({
      title: "Groups by layer",
      file: "groups",
      height: 380,
      describe: () => `${theodolite.measure(measure.box.value).label} of ${theodolite.pluralize(found().names.length, "group")}, population ${theodolite.state.population}.`,
      table: () => ({ columns: ["layer", "layer_name", "group", ...measures], rows: rows(measures) }),
    });
    const heat = theodolite.figure({
      title: "Pairs of groups",
      file: "group-pairs",
      height: 480,
      shows: ["survey", "population", "layer"],
      describe: () => `${found().labels[pair.box.value]} of all pairs of ${theodolite.pluralize(found().names.length, "group")} at ${theodolite.layerName()}.`,
      table: () => ({ columns: ["group", "other", pair.box.value], rows: matrix().flatMap((row, a) => row.map((number, b) => [found().names[a], found().names[b], number])) }),
    });
    const table = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Groups at the chosen layer" });
    const note = el("p", { class: "quiet" });
    theodolite.layerKeys(lines.plot);
    mount.append(el("div", { class: "controls" }, measure.el, pair.el), note, lines.el, heat.el, table);

    const matrix = () => {
      const size = found().names.length;
      const packed = theodolite.column((found().pairs[theodolite.state.population] || {})[pair.box.value]) || [];
      const start = theodolite.state.layer * size * size;
      // On the diagonal of the mean cosine between groups stands that within the group.
      const within = (row) => (pair.box.value === "cosine_between" ? value("mean_cosine", theodolite.state.layer, row) : NaN);
      const known = (number) => (Number.isFinite(number) ? number : null);
      return found().names.map((_, row) => Array.from(packed.slice(start + row * size, start + (row + 1) * size), (number, at) => known(at === row ? within(row) : number)));
    };
    const drawLines = () => {
      const { layers } = theodolite.survey();
      const { names } = found();
      const name = measure.box.value;
      const known = theodolite.measure(name);
      lines.title("Groups by layer", `${known.meaning || known.label}, by ${found().field}. Population ${theodolite.state.population}.`);
      const traces = names.map((group, at) => {
        const y = layers.map((_, layer) => value(name, layer, at));
        const style = theodolite.lineStyle(at);
        const errors = name === "mean_cosine" ? layers.map((_, layer) => value("mean_cosine_se", layer, at)) : null;
        return {
          type: "scatter", mode: names.length > FEW ? "lines" : "lines+markers", name: theodolite.escapeText(short(group, 28)), x: layers.map((_, layer) => layer), y,
          line: { width: names.length > FEW ? 1.2 : 2, color: style.colour, dash: style.dash }, marker: { size: 6, symbol: style.sign, color: style.colour },
          error_y: names.length > FEW ? undefined : theodolite.errorBars(name, y, errors), hovertemplate: `${theodolite.escapeText(group)}<br>%{y:.4g}<extra></extra>`,
        };
      });
      const seen = traces.flatMap(({ y }) => y).filter(Number.isFinite);
      if (!seen.length) return lines.showMessage(`No group has this measure: ${name === "mean_cosine" ? "too few vectors" : "only the largest groups have it, within the memory for all layers"}.`);
      return lines.draw(traces, { showlegend: names.length <= FEW, xaxis: theodolite.layerAxis(layers, lines.plot.clientWidth), yaxis: { ...theodolite.valueAxis(name, seen, false), title: { text: theodolite.escapeText(known.label), standoff: 8 } }, shapes: [theodolite.layerMark()] });
    };
    const drawPairs = () => {
      const { names, labels } = found();
      const shown = names.map((name, at) => `${short(name, 20)}${names.findIndex((one) => short(one, 20) === short(name, 20)) === at ? "" : ` ${at}`}`).map(theodolite.escapeText);
      heat.title("Pairs of groups", `${labels[pair.box.value]} at ${theodolite.layerName()}${pair.box.value === "cosine_between" ? "; on the diagonal within the group" : ""}. The groups are in the order of the table.`);
      const z = matrix();
      if (!z.flat().some((number) => number !== null)) return heat.showMessage("No pair of groups has this number at this layer: it needs documents in at least ten document groups of each.");
      const small = { dtick: 1, ...(names.length > 24 ? { tickfont: { size: 9 } } : {}) };
      heat.plot.style.height = `${Math.max(420, 160 + 15 * names.length)}px`;
      return heat.draw([{ type: "heatmap", x: shown, y: shown, z, colorscale: "Viridis", hoverongaps: false, colorbar: { thickness: 12 }, hovertemplate: "%{y} and %{x}<br>%{z:.4g}<extra></extra>" }], {
        margin: { l: 140, r: 24, t: 12, b: 120 }, xaxis: { type: "category", tickangle: -60, showgrid: false, ...small }, yaxis: { type: "category", autorange: "reversed", showgrid: false, ...small },
      });
    };
    const drawTable = () => {
      const { names, documents, nearest } = found();
      const at = theodolite.state.layer;
      const near = (nearest[theodolite.state.population] || []).slice(at * names.length, (at + 1) * names.length);
      const numbers = ["n", "q", "v_within", "mean_cosine", "effective_rank"];
      const head = [found().field, "documents", ...numbers.map((name) => theodolite.measure(name).label), "nearest group", "distance"];
      const body = names.map((name, group) =>
        el("tr", {}, el("th", { scope: "row" }, name), ...[theodolite.formatCount(documents[group]), ...numbers.map((one) => theodolite.formatNumber(value(one, at, group))), near[group] >= 0 ? names[near[group]] : "–", theodolite.formatNumber(value("nearest_distance", at, group))].map((text) => el("td", {}, text))),
      );
      table.replaceChildren(el("table", {}, el("caption", {}, `${theodolite.layerName()}, population ${theodolite.state.population}`), el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...body)));
    };
    const update = (changed) => {
      const groups = found();
      mount.hidden = !groups;
      if (!groups) return;
      const chosen = pair.box.value || "cosine_between";
      pair.box.replaceChildren(...Object.entries(groups.labels).map(([name, label]) => el("option", { value: name, selected: name === chosen }, label)));
      note.textContent = groups.left_out ? `The page shows the first ${groups.names.length} groups; groups.parquet has ${theodolite.pluralize(groups.left_out, "more", "more")}.` : "";
      const relevant = !changed || ["survey", "population", "layer"].some((key) => changed.has(key));
      if (!relevant) return;
      const moved = changed && !changed.has("survey") && !changed.has("population");
      if (moved && lines.plot.data) Plotly.relayout(lines.plot, { shapes: [theodolite.layerMark()] });
      else drawLines();
      drawPairs();
      drawTable();
    };
    return { update };
  });
})();

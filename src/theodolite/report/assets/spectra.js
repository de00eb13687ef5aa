// The spectrum of the chosen layer, and its dimension at every scale.
(() => {
  const { el } = theodolite;
  const marks = [["pca_dim_90", 0.9], ["pca_dim_95", 0.95], ["pca_dim_99", 0.99]];
  const line = (colour, more) => ({ type: "scatter", mode: "lines", ...more, line: { width: 2.2, color: colour, ...more.line } });

  // The curves of a population at every layer; null if the survey has none.
  const curves = (kind) => {
    const found = theodolite.survey()[kind][theodolite.state.population];
    return found && found.some(Boolean) ? found : null;
  };
  // All layers as one faint line with gaps.
  const otherLayers = (kind, x, y) => {
    const xs = [];
    const ys = [];
    curves(kind).forEach((curve) => {
      if (!curve) return;
      xs.push(...theodolite.column(curve[x]), NaN);
      ys.push(...theodolite.column(curve[y]), NaN);
    });
    return line(theodolite.colour("quiet"), { x: xs, y: ys, name: "other layers", opacity: 0.45, hoverinfo: "skip", line: { width: 0.9 } });
  };
  const rowsOf = (kind, names) =>
    (curves(kind) || []).flatMap((curve, at) => {
      if (!curve) return [];
      const { layer, name } = theodolite.survey().layers[at];
      const columns = names.map((column) => theodolite.column(curve[column]));
      return Array.from(columns[0], (_, row) => [layer, name, theodolite.state.population, ...columns.map((values) => values[row])]);
    });
  const table = (kind, names) => ({ columns: ["layer", "layer_name", "population", ...names], rows: rowsOf(kind, names) });
  const valueAtLayer = (column) => (theodolite.profile(column) || [])[theodolite.state.layer];
  const { layerName } = theodolite;

  theodolite.section("spectra", (mount) => {
    const view = theodolite.select("Spectrum", [["share", "share of each eigenvalue"], ["cumulative", "cumulative"]], "share", () => update(null));
    theodolite.storeControl("spectra.view", view.box);
    const summary = el("p", { class: "meaning" });
    const spectrum = theodolite.figure({
      title: "Spectrum", shows: ["survey", "population", "layer"],
      file: "spectrum",
      height: 380,
      describe: () => {
        const curve = curves("spectra")[theodolite.state.layer];
        const share = theodolite.column(curve.share);
        return `${theodolite.atLayer("", ": ")}the first eigenvalue has ${theodolite.formatNumber(share[0])} of V, the last ${theodolite.formatNumber(share[share.length - 1])}. ${numbers()}`;
      },
      table: () => table("spectra", ["rank", "share", "cumulative"]),
    });
    const scales = theodolite.figure({
      title: "Dimension by scale", shows: ["survey", "population", "layer"],
      file: "dimension-by-scale",
      height: 380,
      describe: () => {
        const curve = curves("scales")[theodolite.state.layer];
        const values = theodolite.column(curve.dimension);
        return `${theodolite.atLayer("", ": ")}${Array.from(theodolite.column(curve.scale), (scale, at) => `${theodolite.formatNumber(values[at], 3)} at scale ${scale}`).join(", ")}.`;
      },
      table: () => table("scales", ["scale", "dimension", "se"]),
    });
    [spectrum, scales].forEach((figure) => theodolite.layerKeys(figure.plot));
    mount.append(el("div", { class: "controls" }, view.el), summary, el("div", { class: "pair" }, spectrum.el, scales.el));

    const numbers = () => {
      const value = (column, digits = 4) => theodolite.formatNumber(valueAtLayer(column), digits);
      const found = [
        ["effective_rank", () => `effective rank ${value("effective_rank")}`],
        ["participation_ratio", () => `participation ratio ${value("participation_ratio")}`],
        ["pca_dim_90", () => `${marks.map(([column]) => value(column)).join(", ")} principal components for 90%, 95%, 99% of V`],
        ["twonn", () => `TwoNN ${value("twonn", 3)}${Number.isFinite(valueAtLayer("twonn_se")) ? ` ± ${value("twonn_se", 2)}` : ""}`],
      ].filter(([column]) => Number.isFinite(valueAtLayer(column)));
      const of = Number.isFinite(valueAtLayer("dim")) ? `of ${theodolite.pluralize(valueAtLayer("dim"), "coordinate")}` : "";
      const where = theodolite.atLayer("", of && ` (${of})`) || of.replace("of", "In");
      return found.length ? `${where}: ${found.map(([, words]) => words()).join("; ")}.` : "";
    };
    let faint = {}; // the lines of the other layers, made again when the survey, the population or the view changes
    const describeMissing = (kind, column) => {
      const { population } = theodolite.state;
      const where = curves(kind) ? layerName() : Object.keys(theodolite.survey()[kind]).length ? population : "this survey";
      const usual = { spectra: "Very wide vectors and older surveys have none", scales: "It requires a sample of vectors" }[kind];
      return `Not available for ${where}. ${theodolite.reason(column, population, theodolite.survey(), usual)}.`;
    };
    const layerNote = () => theodolite.atLayer("", theodolite.hasOneLayer() ? ". " : "; the other layers are grey. ");
    // The other layers, if there are any, are drawn behind.
    const lines = (kind, front) => [...(theodolite.hasOneLayer() ? [] : [faint[kind]]), front];
    const drawSpectrum = () => {
      const y = view.box.value;
      const curve = curves("spectra") && curves("spectra")[theodolite.state.layer];
      spectrum.title(y === "share" ? "Spectrum" : "Spectrum, cumulative", `${layerNote()}${y === "share" ? "Share of V by rank; both axes are logarithmic." : "Share of V in the first directions together."}`);
      if (!curve) return spectrum.showMessage(describeMissing("spectra", "effective_rank"));
      faint.spectra = faint.spectra || otherLayers("spectra", "rank", y);
      const colour = theodolite.colour("c0");
      const traces = lines("spectra", line(colour, {
        x: theodolite.column(curve.rank), y: theodolite.column(curve[y]), name: theodolite.escapeText(layerName()), customdata: Array.from(theodolite.column(curve[y]), (value) => theodolite.formatNumber(value, 3)), hovertemplate: "rank %{x}<br>%{customdata} of V<extra></extra>",
      }));
      const reached = y === "cumulative" ? marks.filter(([column]) => Number.isFinite(valueAtLayer(column))) : [];
      if (reached.length) {
        traces.push({
          type: "scatter", mode: "markers", x: reached.map(([column]) => valueAtLayer(column)), y: reached.map(([, share]) => share), name: "90%, 95%, 99%",
          marker: { symbol: "diamond", size: 9, color: theodolite.colour("c1") }, hovertemplate: "%{x} components have %{y:.0%}<extra></extra>",
        });
      }
      // Rounding errors at the end of the spectrum would extend the axis by thirty powers of ten.
      const least = faint.spectra.y.reduce((a, b) => (b > 1e-9 && b < a ? b : a), 1);
      const most = faint.spectra.y.reduce((a, b) => (b > a ? b : a), least);
      return spectrum.draw(traces, {
        showlegend: true,
        xaxis: { type: "log", title: { text: "rank", standoff: 8 } },
        yaxis: y === "share" ? { type: "log", range: [Math.log10(least) - 0.2, Math.log10(most) + 0.2], title: { text: "share of V", standoff: 8 } } : { range: [0, 1.02], tickformat: ".0%", title: { text: "share of V", standoff: 8 } },
        shapes: y === "share" ? [] : marks.map(([, share]) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: share, y1: share, line: { color: theodolite.colour("quiet"), width: 1, dash: "dot" }, layer: "below" })),
      });
    };
    const drawScales = () => {
      const curve = curves("scales") && curves("scales")[theodolite.state.layer];
      scales.title("Dimension by scale", `${layerNote()}Gride, from the ratio of the distances to the k-th and the 2k-th neighbour in the sample. Bars show one standard error.`);
      if (!curve) return scales.showMessage(describeMissing("scales", "twonn"));
      faint.scales = faint.scales || otherLayers("scales", "scale", "dimension");
      const colour = theodolite.colour("c0");
      const ticks = Array.from(theodolite.column(curve.scale));
      return scales.draw(
        lines("scales", line(colour, {
          mode: "lines+markers", x: theodolite.column(curve.scale), y: theodolite.column(curve.dimension), name: theodolite.escapeText(layerName()), marker: { color: colour, size: 7 },
          error_y: { type: "data", array: Array.from(theodolite.column(curve.se), (value) => (Number.isFinite(value) ? value : 0)), color: colour, thickness: 1.2, width: 4 },
          text: Array.from(theodolite.column(curve.dimension), (value, at) => `${theodolite.formatNumber(value, 3)} ± ${theodolite.formatNumber(theodolite.column(curve.se)[at], 2)}`), hovertemplate: "k = %{x}<br>dimension %{text}<extra></extra>",
        })),
        {
          showlegend: true,
          xaxis: { type: "log", title: { text: "scale k (neighbours)", standoff: 8 }, tickvals: ticks, ticktext: ticks.map(String) },
          yaxis: { title: { text: "dimension", standoff: 8 }, rangemode: "tozero" },
        },
      );
    };
    const update = (changed) => {
      if (changed && !["survey", "population", "layer"].some((key) => changed.has(key))) return;
      if (!changed || changed.has("survey") || changed.has("population")) faint = {};
      summary.textContent = numbers();
      drawSpectrum();
      drawScales();
    };
    return { update };
  });
})();

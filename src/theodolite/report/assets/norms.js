// Quantiles of the norm at each layer, and the longest vector.
(() => {
  const { el } = theodolite;
  const bands = [["norm_p01", "norm_p99", "1% to 99%", 0.14], ["norm_p05", "norm_p95", "5% to 95%", 0.2], ["norm_p25", "norm_p75", "25% to 75%", 0.34]];
  const quantiles = ["norm_min", "norm_p01", "norm_p05", "norm_p25", "norm_p50", "norm_p75", "norm_p95", "norm_p99", "norm_max"];
  const counts = [["massive", "massive"], ["zero", "zero"], ["nonfinite", "non-finite"]];
  const faint = (colour, strength) => {
    const short = colour.length === 4;
    const part = (at) => (short ? parseInt(colour[at + 1] + colour[at + 1], 16) : parseInt(colour.slice(1 + 2 * at, 3 + 2 * at), 16));
    return `rgba(${part(0)},${part(1)},${part(2)},${strength})`;
  };

  theodolite.section("norms", (mount) => {
    const scale = theodolite.select("Axis", [["auto", "automatic"], ["linear", "linear"], ["log", "logarithmic"]], "auto", () => update(null));
    theodolite.storeControl("norms.axis", scale.box);
    const summary = el("p", { class: "meaning" });
    const figure = theodolite.figure({
      title: "Norms",
      file: "norms",
      height: 380,
      describe: () => {
        const span = (column, name) => theodolite.describeRanges([{ name, y: theodolite.profile(column) || [] }]);
        return `${theodolite.state.population}. ${span("norm_p50", "Median norm")}; ${span("norm_max", "Longest vector")}. ${describeAllLayers()}`;
      },
      table: () => {
        const columns = [...quantiles, ...counts.map(([column]) => column)];
        const { layers, populations } = theodolite.survey();
        const rows = populations.flatMap((name) =>
          layers.map((layer, at) => [layer.layer, layer.name, name, ...columns.map((column) => (theodolite.profile(column, name) || [])[at])]),
        );
        return { columns: ["layer", "layer_name", "population", ...columns], rows };
      },
    });
    theodolite.layerKeys(figure.plot);
    mount.append(el("div", { class: "controls" }, scale.el), summary, figure.el);

    // Counts over all layers as text: "massive vectors at 22 of 32 layers, 141 at most".
    const describeAllLayers = () => {
      const none = [];
      const some = [];
      counts.forEach(([column, word]) => {
        const values = theodolite.profile(column);
        if (!values) return;
        const seen = Array.from(values).filter((value) => value > 0);
        const most = seen.reduce((a, b) => Math.max(a, b), 0);
        if (seen.length) some.push(`${word} vectors at ${seen.length} of ${values.length} layers, ${theodolite.formatCount(most)} at most`);
        else none.push(word);
      });
      if (none.length) some.push(`no ${none.join(", ").replace(/, ([^,]*)$/, " or $1")} vectors`);
      return some.length ? `All layers: ${some.join("; ")}.` : "";
    };
    const describeLayer = () => {
      const at = theodolite.state.layer;
      const value = (column) => (theodolite.profile(column) || [])[at];
      const found = counts
        .filter(([column]) => Number.isFinite(value(column)))
        .map(([column, word]) => `${theodolite.formatCount(value(column))} ${word}`);
      const of = Number.isFinite(value("n")) ? ` of ${theodolite.pluralize(value("n") + (value("nonfinite") || 0), "vector")}` : "";
      const median = `median norm ${theodolite.formatNumber(value("norm_p50"))}, longest ${theodolite.formatNumber(value("norm_max"))}`;
      return `${theodolite.layerName()}: ${median}${found.length ? `; ${found.join(", ")}${of}` : ""}.`;
    };
    // Over all populations, so that the axis does not change with the population.
    const span = () => {
      const all = theodolite
        .survey()
        .populations.flatMap((name) => ["norm_p01", "norm_p50", "norm_max"].flatMap((column) => Array.from(theodolite.profile(column, name) || [])))
        .filter(Number.isFinite);
      return { least: Math.min(...all), most: Math.max(...all), positive: Math.min(...all.filter((value) => value > 0)) };
    };
    const draw = () => {
      const { layers } = theodolite.survey();
      const population = theodolite.state.population;
      const median = theodolite.profile("norm_p50");
      figure.title("Norms", `Population ${population}. The darkest band has half of the vectors, the line is the median, and the markers are the longest vectors.`);
      if (!median) {
        figure.showMessage(theodolite.reason("norm_p50", population));
        return;
      }
      const { least, most, positive } = span();
      const log = positive < Infinity && (scale.box.value === "log" || (scale.box.value === "auto" && least > 0 && most > 20 * least));
      // A logarithmic axis has no zero: it is drawn at the lower end.
      const value = (column, at) => (log ? Math.max(theodolite.profile(column)[at], positive) : theodolite.profile(column)[at]);
      const colour = theodolite.colour("c0");
      const traces = bands.flatMap(([low, high, name, strength]) => {
        if (!theodolite.profile(low) || !theodolite.profile(high)) return [];
        const places = layers.map((_, at) => at).filter((at) => Number.isFinite(value(low, at)) && Number.isFinite(value(high, at)));
        const edge = { type: "scatter", mode: "lines", x: places, line: { width: 0.6, color: faint(colour, 0.5) }, hoverinfo: "skip" };
        return [
          { ...edge, y: places.map((at) => value(low, at)), showlegend: false },
          { ...edge, y: places.map((at) => value(high, at)), fill: "tonexty", fillcolor: faint(colour, strength), name },
        ];
      });
      const hover = layers.map((_, at) => quantiles.filter((column) => theodolite.profile(column)).map((column) => `${column.slice(5)} ${theodolite.formatNumber(theodolite.profile(column)[at])}`).join("<br>"));
      const line = (column, name, more) => theodolite.profile(column) && traces.push({
        type: "scatter", name, x: layers.map((_, at) => at), y: layers.map((_, at) => value(column, at)), text: layers.map((layer, at) => `${theodolite.escapeText(layer.name)}<br>${hover[at]}`),
        hovertemplate: "%{text}<extra></extra>", ...more,
      });
      line("norm_p50", "median", { mode: "lines+markers", line: { width: 2.2, color: colour }, marker: { size: 5, color: colour } });
      line("norm_max", "longest", { mode: "markers", marker: { size: 8, symbol: "diamond-open", color: theodolite.colour("c1"), line: { width: 1.6, color: theodolite.colour("c1") } } });
      const low = log ? Math.log10(positive) : Math.min(least, 0);
      const high = log ? Math.log10(most) : most;
      const margin = 0.04 * (high - low || 1);
      figure.draw(traces, {
        showlegend: true, margin: { l: 56, r: 24, t: 12, b: 44 }, xaxis: theodolite.layerAxis(layers, figure.plot.clientWidth), shapes: [theodolite.layerMark()],
        yaxis: { type: log ? "log" : "linear", title: { text: log ? "norm (logarithmic)" : "norm", standoff: 8 }, range: [log ? low - margin : low, high + margin], },
      });
    };
    const update = (changed) => {
      const moved = changed && !changed.has("survey") && !changed.has("population");
      if (moved && !changed.has("layer")) return;
      summary.textContent = theodolite.profile("norm_p50") ? `${describeLayer()} ${describeAllLayers()}` : "";
      if (!moved) draw();
      else if (figure.plot.data) Plotly.relayout(figure.plot, { shapes: [theodolite.layerMark()] });
    };
    return { update };
  });
})();

// Axes: ticks of logarithmic axes, labels of layers, limits of shares, and error bars.
(() => {
  // The ticks of a logarithmic axis from 10^low to 10^high, all labels in one size: powers of ten, and 2 and 5 times
  // these if they are few. By default Plotly would write the digits between powers small and over each other.
  // `width` is that of the chart, if the axis is horizontal: labels that would touch are left out.
  const MOST_TICKS = 7;
  const GAP = 8; // pixels between two labels
  const MARGINS = 80; // pixels beside the axis, about
  const pen = document.createElement("canvas").getContext("2d");
  const measureText = (text) => {
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    return pen.measureText(text).width;
  };
  const made = new WeakMap(); // from the ticks of a horizontal axis to a function (plot, width) that computes them again
  theodolite.logTicks = (low, high, width) => {
    const marks = (kinds, every = 1) => {
      const found = [];
      for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
        if (power % every === 0) found.push(...kinds.map((kind) => kind * 10 ** power));
      }
      return found.map((value) => Number(value.toPrecision(3))).filter((value) => Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9);
    };
    const enough = (found) => found.length >= 3;
    const every = Math.max(1, Math.ceil((high - low) / MOST_TICKS));
    const all = [marks([1], every), marks([1, 2, 5]), marks([1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9])].find(enough) || marks([1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3.2, 3.6, 4, 4.5, 5, 5.5, 6, 7, 8, 9]);
    const place = (value) => ((Math.log10(value) - low) / (high - low)) * Math.max(width - MARGINS, 120);
    const half = (value) => measureText(theodolite.formatTick(value)) / 2;
    const vals = [];
    all.forEach((value) => {
      const last = vals[vals.length - 1];
      if (!width || !vals.length || place(value) - place(last) >= half(value) + half(last) + GAP) vals.push(value);
    });
    if (width) made.set(vals, (plot, now) => theodolite.logTicks(...plot._fullLayout.xaxis.range, now));
    return { tickmode: "array", tickvals: vals, ticktext: vals.map(theodolite.formatTick) };
  };
  const spread = (values) => {
    let [low, high] = [Infinity, -Infinity];
    values.forEach((value) => value > 0 && Number.isFinite(value) && ([low, high] = [Math.min(low, value), Math.max(high, value)]));
    const margin = 0.06 * (Math.log10(high / low) || 1); // as Plotly leaves at both ends
    return low <= high ? [Math.log10(low) - margin, Math.log10(high) + margin] : [0, 1];
  };
  // An axis of a layout with its ticks; `values` gives the values along it.
  theodolite.withTicks = (axis, values, width) => {
    if (!axis || axis.type !== "log" || axis.tickvals || axis.dtick !== undefined) return axis;
    return { ...axis, ...theodolite.logTicks(...(axis.range || spread(values())), width) };
  };

  // Bars of one standard error, which stop at the limits that the definition of a measure has, such as 0 and 1.
  theodolite.errorBars = (column, values, errors) => {
    if (!errors) return undefined;
    const [low, high] = theodolite.measure(column).limits || [-Infinity, Infinity];
    const known = (value) => (Number.isFinite(value) ? Math.max(value, 0) : 0);
    return {
      type: "data", symmetric: false, visible: true, thickness: 1, width: 3,
      array: Array.from(errors, (error, at) => known(Math.min(error, high - values[at]))),
      arrayminus: Array.from(errors, (error, at) => known(Math.min(error, values[at] - low))),
    };
  };
  // The axis of values: a share of at most 1 ends at 1 if it comes near.
  theodolite.valueAxis = (column, values, log) => {
    if (log) return { type: "log" };
    const [, limit] = theodolite.measure(column).limits || [];
    const most = values.reduce((a, b) => (b > a ? b : a), -Infinity);
    return limit && most > 0.9 * limit && most <= limit ? { type: "linear", range: [Math.min(0, ...values), 1.02 * limit] } : { type: "linear", rangemode: "tozero" };
  };

  // An axis of layers by number, the first and the last by name; as many labels as fit the width without touching.
  theodolite.layerAxis = (layers, chartWidth = 1000, inset = 0) => {
    const width = chartWidth - inset;
    const last = layers.length - 1;
    const short = (name) => name.replace(/\bblock /, "").replace("embeddings", width < 560 ? "emb." : "embeddings");
    const lines = (at) => short(layers[at].name).split(" ");
    const half = (at) => Math.max(...lines(at).map(measureText)) / 2;
    const place = (at) => ((at + 0.4) / (layers.length - 0.2)) * Math.max(width - MARGINS, 120);
    const fits = (a, b) => place(b) - place(a) >= half(a) + half(b) + GAP;
    const step = [1, 2, 3, 4, 5, 10, 20, 50, 100].find((each) => layers.length / each <= 16) || 200;
    const ticks = last > 0 ? [0] : [];
    for (let at = 1; at < last; at += 1) if (at % step === 0 && fits(ticks[ticks.length - 1], at)) ticks.push(at);
    while (ticks.length > 1 && !fits(ticks[ticks.length - 1], last)) ticks.pop();
    ticks.push(Math.max(last, 0));
    made.set(ticks, (_, now) => theodolite.layerAxis(layers, now, inset));
    const word = (at) => lines(at).map(theodolite.escapeText).join("<br>");
    return { tickvals: ticks, ticktext: layers.length ? ticks.map(word) : [], tickangle: 0, title: { text: last > 0 ? "block" : "", standoff: 8 }, range: [-0.4, layers.length - 0.6] };
  };
  // The ticks of a drawn chart at another width, to be given to Plotly.relayout.
  theodolite.ticksAtWidth = (plot, width) => {
    const again = made.get(plot.layout.xaxis?.tickvals);
    if (!again) return {};
    const { tickvals, ticktext } = again(plot, width);
    return { "xaxis.tickvals": tickvals, "xaxis.ticktext": ticktext };
  };
  theodolite.layerMark = () => ({
    type: "line", x0: theodolite.state.layer, x1: theodolite.state.layer, y0: 0, y1: 1, yref: "paper",
    line: { color: theodolite.colour("quiet"), width: 1, dash: "dot" }, layer: "below",
  });
})();

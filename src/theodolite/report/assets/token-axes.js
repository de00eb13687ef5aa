// The axes of the token map, their ranges, and the number of tokens outside them.
(() => {
  theodolite.tokenAxes = {
    mv: { x: "m", y: "v", words: "V against M" }, nm: { x: "n", y: "m", words: "M against frequency" },
    nv: { x: "n", y: "v", words: "V against frequency" }, nq: { x: "n", y: "q", words: "Q against frequency" },
  };
  const NAMES = { n: "n: occurrences of the token", m: "M: squared norm of the token's mean", v: "V: variance around the token's mean", q: "Q = M + V: mean squared norm" };

  const OUTSIDE = 0.001;
  // On a logarithmic axis, values below this share of the median are rounding: of a token whose vectors are all equal.
  const NEARLY_ZERO = 1e-6;

  const extent = (columns, places, log) => {
    const seen = new Float64Array(columns.length * places.length);
    let size = 0;
    for (const column of columns) {
      for (const at of places) if (Number.isFinite(column[at]) && (!log || column[at] > 0)) seen[size++] = column[at];
    }
    // One of a thousand at each end may be outside, because a single token far away would squeeze all others.
    const [sorted, cut] = [seen.subarray(0, size).sort(), Math.floor(OUTSIDE * size)];
    const least = log ? sorted.findIndex((value) => value >= NEARLY_ZERO * sorted[size >> 1]) : 0;
    return size ? [sorted[Math.max(cut, least)], sorted[size - 1 - cut]] : null;
  };
  const framed = (found, log) => {
    if (!found) return [0, 1];
    const [low, high] = log ? found.map(Math.log10) : [Math.min(found[0], 0), found[1]];
    const edge = Math.max((high - low) * 0.05, log ? 0.06 : Math.abs(high) * 0.02, 1e-30);
    return [low - edge, high + edge];
  };
  theodolite.median = (values) => {
    const seen = values.filter(Number.isFinite).sort((a, b) => a - b);
    const half = Math.floor(seen.length / 2);
    return seen.length % 2 ? seen[half] : (seen[half - 1] + seen[half]) / 2; // NaN if there are none
  };

  // From the lowest to the highest of nearly all at these layers. Special tokens are often far from the others and are ignored.
  theodolite.tokenRange = (tokens, kept, name, layers, log) => {
    const ordinary = kept.filter((at) => !tokens.special[at]);
    const columns = (name === "n" ? [0] : layers).map((at) => tokens[name](at));
    return framed(extent(columns, ordinary.length ? ordinary : kept, log), log);
  };
  theodolite.tokenAxis = (name, log, range) => ({
    type: log ? "log" : "linear", title: { text: theodolite.reword(NAMES[name]), standoff: 8 }, range,
    ...(log ? { exponentformat: "power" } : {}),
  });
  theodolite.countOutside = (points, log, ranges) => {
    let count = 0;
    const [x0, x1] = log.x ? ranges.x.map((at) => 10 ** at) : ranges.x;
    const [y0, y1] = log.y ? ranges.y.map((at) => 10 ** at) : ranges.y;
    for (let i = 0; i < points.at.length; i += 1) if (points.x[i] < x0 || points.x[i] > x1 || points.y[i] < y0 || points.y[i] > y1) count += 1;
    return count;
  };
})();

// The traces of the token map: points by frequency, matches of the search, the chosen token, and a line of constant Q.
(() => {
  // Viridis, which is ordered also for colour-blind readers.
  const VIRIDIS = ["#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725"];
  const MOST_GROUPS = 7;

  const dark = () => {
    const hex = theodolite.colour("card").slice(1);
    const size = hex.length / 3;
    const [r, g, b] = [0, 1, 2].map((at) => parseInt(hex.slice(at * size, (at + 1) * size).repeat(3 - size), 16));
    return 0.3 * r + 0.6 * g + 0.1 * b < 128;
  };
  // Frequent tokens contrast with the background in both themes.
  const shade = (place) => VIRIDIS[Math.round((dark() ? 0.35 + 0.65 * place : 0.72 - 0.72 * place) * (VIRIDIS.length - 1))];

  // Groups by half decades of n, or by decades if there are many: one colour per group is drawn several times faster than
  // one colour per point.
  theodolite.tokenGroups = (tokens, kept) => {
    const n = tokens.n(theodolite.state.layer);
    const ordinary = kept.filter((at) => !tokens.special[at]);
    const most = ordinary.reduce((top, at) => Math.max(top, n[at]), 1);
    const least = ordinary.reduce((low, at) => Math.min(low, n[at]), most);
    const edges = (steps) => {
      const all = [...Array(11).keys()].flatMap((power) => steps.map((step) => step * 10 ** power));
      return all.filter((edge, at) => edge <= most && all[at + 1] > least);
    };
    const halves = edges([1, 3]);
    const starts = halves.length > MOST_GROUPS ? edges([1]) : halves;
    const count = theodolite.formatCount;
    const groups = starts.map((start, at) => {
      const end = at + 1 < starts.length ? starts[at + 1] : Infinity;
      const places = ordinary.filter((unit) => n[unit] >= start && n[unit] < end);
      const place = starts.length > 1 ? at / (starts.length - 1) : 1;
      return { name: end === Infinity ? `n ≥ ${count(start)}` : `${at ? "" : "n "}${count(start)}–${count(end - 1)}`, places, place, symbol: "circle" };
    });
    const special = kept.filter((at) => tokens.special[at]);
    return special.length ? [...groups, { name: "special", places: special, place: 1, symbol: "diamond-open" }] : groups;
  };

  // Groups of about equal size by another column, from low to high; units without a value are in none.
  theodolite.tokenGroupsBy = (tokens, kept, column, layer) => {
    const values = tokens[column](layer);
    const ordinary = Array.from(kept).filter((at) => !tokens.special[at] && Number.isFinite(values[at])).sort((a, b) => values[a] - values[b]);
    const count = Math.min(MOST_GROUPS, Math.max(ordinary.length, 1));
    const format = (value) => theodolite.formatNumber(value, 3);
    const groups = [...Array(count).keys()].map((at) => {
      const places = Uint32Array.from(ordinary.slice(Math.round((at * ordinary.length) / count), Math.round(((at + 1) * ordinary.length) / count)));
      const name = places.length ? `${format(values[places[0]])} … ${format(values[places[places.length - 1]])}` : "none";
      return { name, places, place: count > 1 ? at / (count - 1) : 1, symbol: "circle", size: 6 };
    });
    const special = kept.filter((at) => tokens.special[at]);
    return special.length ? [...groups, { name: "special", places: special, place: 1, symbol: "diamond-open" }] : groups;
  };

  // The units that can be drawn on these axes, and their points. A logarithmic axis has no 0.
  theodolite.tokenPoints = (places, x, y, log) => {
    const at = new Uint32Array(places.length);
    const xs = new Float64Array(places.length);
    const ys = new Float64Array(places.length);
    let size = 0;
    let zeros = 0;
    for (let i = 0; i < places.length; i += 1) {
      const [a, b] = [x[places[i]], y[places[i]]];
      if (!Number.isFinite(a) || !Number.isFinite(b)) continue;
      if ((log.x && a <= 0) || (log.y && b <= 0)) {
        zeros += 1;
        continue;
      }
      at[size] = places[i];
      xs[size] = a;
      ys[size] = b;
      size += 1;
    }
    return { at: at.subarray(0, size), x: xs.subarray(0, size), y: ys.subarray(0, size), zeros };
  };

  // The more points, the more transparent.
  const opacity = (count) => (count < 1500 ? 0.85 : count < 6000 ? 0.65 : 0.45);

  // An empty trace keeps one undefined point.
  const NO_POINT = { x: [NaN], y: [NaN] };
  const pointsOrNone = (points) => (points && points.x.length ? points : NO_POINT);

  theodolite.tokenTraces = (groups, points, type) => {
    const count = points.reduce((sum, one) => sum + one.at.length, 0);
    return groups.map(({ name, place, symbol, size }, i) => {
      const special = symbol !== "circle";
      const colour = special ? theodolite.colour("c3") : shade(place);
      return {
        type, mode: "markers", uid: `group-${i}-${special ? "special" : groups.length}`, name, x: pointsOrNone(points[i]).x, y: pointsOrNone(points[i]).y, hoverinfo: "none",
        marker: { color: colour, symbol, size: special ? 10 : size || 4.5 + 3.5 * place, opacity: special ? 1 : opacity(count), line: special ? { width: 2, color: colour } : { width: 0 } },
      };
    });
  };

  // The matches of a search as a trace, for saved pictures.
  theodolite.tokenMatches = (points) => ({
    type: "scatter", mode: "markers", name: "found", x: points.x, y: points.y,
    marker: { color: theodolite.colour("ink"), symbol: "circle-open", size: 11, line: { width: 1.8, color: theodolite.colour("ink") } },
  });

  // V = Q - M for one Q, a curve on logarithmic axes. It is steepest near M = Q, so it has more points there.
  theodolite.tokenConstantQ = (q, lowest) => {
    const steps = [...Array(121).keys()].map((at) => at / 120);
    const rising = steps.map((step) => lowest * (q / 2 / lowest) ** step);
    const x = [...rising, ...rising.map((value) => q - value).reverse()];
    return {
      type: "scatter", mode: "lines", uid: "constant", name: `Q = ${theodolite.formatNumber(q, 3)}`, x, y: x.map((value) => q - value),
      hoverinfo: "skip", legendrank: 2000, line: { color: theodolite.colour("quiet"), width: 1.6, dash: "dash" },
    };
  };
})();

// The trajectory of the chosen token over the layers, with the layer numbers at its ends and the token at the chosen layer.
(() => {
  theodolite.tokenPositions = (tokens, x, y, log, at) => {
    const trajectory = { x: [], y: [] };
    tokens.layers.forEach((_, place) => {
      const [a, b] = [tokens[x](place)[at], tokens[y](place)[at]];
      const known = Number.isFinite(a) && Number.isFinite(b) && (!log.x || a > 0) && (!log.y || b > 0);
      trajectory.x.push(known ? a : NaN);
      trajectory.y.push(known ? b : NaN);
    });
    return trajectory;
  };
  // Labels at {x, y} in the units of the axes, moved by (dx, dy) pixels: the numbers of the layers at both ends, and the token.
  theodolite.tokenLabels = (tokens, trajectory, log, at, ranges) => {
    const now = theodolite.state.layer;
    const place = (layer) => ({ x: trajectory.x[layer], y: trajectory.y[layer] });
    const known = trajectory.x.map((_, layer) => layer).filter((layer) => Number.isFinite(trajectory.x[layer]));
    const ends = known.length > 1 ? [known[0], known[known.length - 1]].filter((layer) => layer !== now) : [];
    const made = ends.map((layer) => ({ ...place(layer), text: String(tokens.layers[layer].layer), side: "center", dx: 11, dy: 9 }));
    if (Number.isFinite(trajectory.x[now])) {
      const text = Array.from(tokens.text[at]);
      const here = log.x ? Math.log10(trajectory.x[now]) : trajectory.x[now];
      // On the side with more space.
      const right = here > (ranges.x[0] + ranges.x[1]) / 2;
      made.push({ ...place(now), text: text.slice(0, 16).join("") + (text.length > 16 ? "…" : ""), side: right ? "right" : "left", dx: right ? 8 : -8, dy: -20, bold: true });
    }
    return made;
  };

  // The same as traces and annotations, for saved pictures.
  theodolite.tokenTrajectory = ({ trajectory, now, labels }, log) => {
    const colour = theodolite.colour("c1");
    const common = { type: "scatter", hoverinfo: "skip", showlegend: false };
    return {
      traces: [
        { ...common, mode: "lines+markers", x: trajectory.x, y: trajectory.y, connectgaps: false, line: { color: colour, width: 2 }, marker: { color: colour, size: 5 } },
        { ...common, mode: "markers", x: now.x, y: now.y, marker: { color: colour, symbol: "circle-open", size: 16, line: { width: 3, color: colour } } },
      ],
      annotations: labels.map(({ x, y, text, side, dx, dy, bold }) => ({
        x: log.x ? Math.log10(x) : x, y: log.y ? Math.log10(y) : y, text: bold ? `<b>${theodolite.escapeText(text)}</b>` : text, xanchor: side, xshift: dx, yshift: -dy,
        showarrow: false, bgcolor: theodolite.colour("card"), borderpad: 1, opacity: 0.92, font: { color: colour, size: bold ? 13 : 12 },
      })),
    };
  };
})();

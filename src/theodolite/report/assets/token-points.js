// What the token map draws: points by how frequent they are, the found and the chosen ones, a line of one Q.
(() => {
  // Samples of viridis, which people who see fewer colours can read too.
  const VIRIDIS = ["#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725"];
  const MOST_GROUPS = 7;

  const dark = () => {
    const hex = theodolite.colour("card").slice(1);
    const size = hex.length / 3;
    const [r, g, b] = [0, 1, 2].map((at) => parseInt(hex.slice(at * size, (at + 1) * size).repeat(3 - size), 16));
    return 0.3 * r + 0.6 * g + 0.1 * b < 128;
  };
  // The frequent ones stand out from the card in both themes.
  const shade = (place) => VIRIDIS[Math.round((dark() ? 0.35 + 0.65 * place : 0.72 - 0.72 * place) * (VIRIDIS.length - 1))];

  // Half decades of n, or whole ones where there are many: a colour each is drawn several times faster than a colour a point.
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
    const count = theodolite.count;
    const groups = starts.map((start, at) => {
      const end = at + 1 < starts.length ? starts[at + 1] : Infinity;
      const places = ordinary.filter((unit) => n[unit] >= start && n[unit] < end);
      const place = starts.length > 1 ? at / (starts.length - 1) : 1;
      return { name: end === Infinity ? `n ≥ ${count(start)}` : `${at ? "" : "n "}${count(start)}–${count(end - 1)}`, places, place, symbol: "circle" };
    });
    const special = kept.filter((at) => tokens.special[at]);
    return special.length ? [...groups, { name: "special", places: special, place: 1, symbol: "diamond-open" }] : groups;
  };

  // The places that have a point at these axes, and the points. On a logarithmic axis 0 has no place.
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

  // So many points, so see-through.
  const opacity = (count) => (count < 1500 ? 0.85 : count < 6000 ? 0.65 : 0.45);

  // A trace that has nothing to draw keeps one point without a place.
  const NOWHERE = { x: [NaN], y: [NaN] };
  const placed = (points) => (points && points.x.length ? points : NOWHERE);
  theodolite.placed = placed;

  theodolite.tokenTraces = (groups, points, type, dimmed) => {
    const count = points.reduce((sum, one) => sum + one.at.length, 0);
    return groups.map(({ name, place, symbol }, i) => {
      const special = symbol !== "circle";
      const colour = special ? theodolite.colour("c3") : shade(place);
      return {
        type, mode: "markers", uid: `group-${i}-${special ? "special" : groups.length}`, name, x: placed(points[i]).x, y: placed(points[i]).y, hoverinfo: "none",
        marker: { color: colour, symbol, size: special ? 10 : 4.5 + 3.5 * place, opacity: special ? 1 : opacity(count) * dimmed, line: special ? { width: 2, color: colour } : { width: 0 } },
      };
    });
  };

  theodolite.tokenRings = (points, type) => ({
    type, mode: "markers", uid: "found", name: "found", x: placed(points).x, y: placed(points).y, hoverinfo: "none", showlegend: Boolean(points),
    marker: { color: theodolite.colour("ink"), symbol: "circle-open", size: 11, line: { width: 1.8, color: theodolite.colour("ink") } },
  });

  // V = Q - M for one Q: straight on linear axes, bent on logarithmic ones. It falls steepest at M = Q, so points crowd there.
  theodolite.tokenConstantQ = (q, lowest) => {
    const steps = [...Array(121).keys()].map((at) => at / 120);
    const rising = steps.map((step) => lowest * (q / 2 / lowest) ** step);
    const x = [...rising, ...rising.map((value) => q - value).reverse()];
    return {
      type: "scatter", mode: "lines", uid: "constant", name: `Q = ${theodolite.show(q, 3)}`, x, y: x.map((value) => q - value),
      hoverinfo: "skip", legendrank: 2000, line: { color: theodolite.colour("quiet"), width: 1.6, dash: "dash" },
    };
  };
})();

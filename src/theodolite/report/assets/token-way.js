// The chosen token's way on the map: where it is at each layer, with the layers' numbers at its ends and its name where it is now.
(() => {
  const { placed } = theodolite;

  theodolite.tokenPlaces = (tokens, x, y, log, at) => {
    const way = { x: [], y: [] };
    tokens.layers.forEach((_, place) => {
      const [a, b] = [tokens[x](place)[at], tokens[y](place)[at]];
      const known = Number.isFinite(a) && Number.isFinite(b) && (!log.x || a > 0) && (!log.y || b > 0);
      way.x.push(known ? a : NaN);
      way.y.push(known ? b : NaN);
    });
    return way;
  };
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  theodolite.tokenLabels = (tokens, way, log, at, ranges) => {
    if (!way) return [];
    const now = theodolite.state.layer;
    const place = (a, b) => ({ x: log.x ? Math.log10(a) : a, y: log.y ? Math.log10(b) : b });
    const common = { showarrow: false, bgcolor: theodolite.colour("card"), borderpad: 1, opacity: 0.92, font: { color: theodolite.colour("c1"), size: 12 } };
    const known = way.x.map((_, layer) => layer).filter((layer) => Number.isFinite(way.x[layer]));
    const ends = known.length > 1 ? [known[0], known[known.length - 1]].filter((layer) => layer !== now) : [];
    const made = ends.map((layer) => ({ ...common, ...place(way.x[layer], way.y[layer]), text: String(tokens.layers[layer].layer), xshift: 11, yshift: -9 }));
    if (Number.isFinite(way.x[now])) {
      const text = Array.from(tokens.text[at]);
      const here = place(way.x[now], way.y[now]);
      // To the side where there is room.
      const right = here.x > (ranges.x[0] + ranges.x[1]) / 2;
      const side = { xanchor: right ? "right" : "left", xshift: right ? 8 : -8, yshift: 20 };
      made.push({ ...common, ...here, ...side, text: `<b>${escaped(text.slice(0, 16).join("") + (text.length > 16 ? "…" : ""))}</b>`, font: { ...common.font, size: 13 } });
    }
    return made;
  };

  // A line through its places at every layer, and a ring where it is now.
  theodolite.tokenWay = (way, now, type) => {
    const colour = theodolite.colour("c1");
    const common = { type, hoverinfo: "skip", showlegend: false };
    return [
      { ...common, mode: "lines+markers", uid: "way", x: placed(way).x, y: placed(way).y, connectgaps: false, line: { color: colour, width: 2 }, marker: { color: colour, size: 5 } },
      { ...common, mode: "markers", uid: "now", x: placed(now).x, y: placed(now).y, marker: { color: colour, symbol: "circle-open", size: 16, line: { width: 3, color: colour } } },
    ];
  };
})();

// The chosen token through the layers: Q, M and V at each, and its numbers at the layer that is chosen.
(() => {
  const { el } = theodolite;
  const LINES = [["Q", "q", 6], ["M", "m", 0], ["V", "v", 1]];

  theodolite.tokenPath = () => {
    const line = el("p", { class: "chosen", role: "status" });
    const picks = el("div", { class: "picks" });
    const figure = theodolite.figure({
      title: theodolite.said("The chosen token through the layers"),
      caption: "Q = M + V.",
      file: "token-path",
      height: 430,
      describe: () => theodolite.spans(latest),
      table: () => {
        const [tokens, at] = shown;
        if (!tokens) return { columns: ["layer"], rows: [] };
        const rows = tokens.layers.map((layer, place) => [tokens.text[at], tokens.n(place)[at], layer.layer, layer.name, ...LINES.map(([, name]) => Number(tokens[name](place)[at].toPrecision(6)))]);
        return { columns: ["token", "n", "layer", "layer_name", "q", "m", "v"], rows };
      },
    });
    let latest = [];
    let shown = [null, -1];

    // Something to begin with: the most frequent ones.
    const offer = (tokens) => {
      const often = theodolite.tokensSeen(tokens, 1, false).slice(0, 12);
      const button = (at) => el("li", {}, el("button", { type: "button", class: "small", onclick: () => theodolite.choose({ token: at }) }, el("bdi", {}, tokens.text[at])));
      const way = theodolite.alone() ? "see its numbers" : "see its way through the layers";
      picks.replaceChildren(theodolite.said(`Choose a token to ${way}: click a point or a row, search, or begin with one of these.`), el("ul", {}, ...Array.from(often, button)));
    };
    const tell = (tokens, at, layer) => {
      line.hidden = at < 0;
      picks.hidden = at >= 0;
      if (at < 0) {
        offer(tokens);
        return;
      }
      const facts = [...theodolite.tokenFacts(tokens, at, layer), ["M/Q", theodolite.show(tokens.share(layer)[at], 3)]];
      const clear = el("button", { type: "button", class: "small", onclick: () => theodolite.choose({ token: -1 }) }, "Clear");
      line.replaceChildren(
        el("b", {}, el("bdi", {}, tokens.text[at])), tokens.special[at] ? el("span", { class: "special" }, "special") : "",
        ...facts.map(([name, value]) => el("span", {}, el("i", {}, name), ` ${value}`)), el("span", { class: "where" }, theodolite.atLayer("", "")), clear,
      );
    };
    const draw = (tokens, at) => {
      const values = LINES.map(([, name]) => tokens.layers.map((_, layer) => tokens[name](layer)[at]));
      const seen = values.flat().filter(Number.isFinite);
      if (!seen.length) {
        latest = [];
        figure.none(theodolite.said("These positions do not have the token: it is counted, but has no M and no V."));
        return;
      }
      latest = LINES.map(([name, , place], i) => {
        const look = theodolite.look(place);
        return {
          type: "scatter", mode: "lines+markers", name, x: tokens.layers.map((_, layer) => layer), y: values[i], text: tokens.layers.map((layer) => theodolite.words(layer.name)),
          line: { color: look.colour, dash: look.dash, width: 2 }, marker: { color: look.colour, symbol: look.sign, size: 6, line: { width: 1.4, color: look.colour } },
          hovertemplate: `%{text}<br>${name} %{y:.4~g}<extra></extra>`,
        };
      });
      const most = values[0].filter(Number.isFinite);
      const log = Math.min(...most) > 0 && Math.max(...most) > 50 * Math.min(...most);
      const zero = log && seen.some((value) => value <= 0) ? " (0 is not drawn)" : "";
      const axis = theodolite.layerAxis(tokens.layers);
      // Half as wide as the other charts: the long name would lie on the next.
      axis.ticktext = axis.ticktext.map((text) => (text === "embeddings" ? "emb." : text));
      figure.draw(latest, {
        xaxis: axis, shapes: [theodolite.layerMark()],
        yaxis: { type: log ? "log" : "linear", title: { text: `squared length${zero}`, standoff: 8 }, ...(log ? { exponentformat: "power" } : { rangemode: "tozero" }) },
      });
    };
    return {
      el: el("div", { class: "path" }, picks, line, figure.el),
      show: (tokens, at, layer, only) => {
        shown = [at < 0 ? null : tokens, at];
        tell(tokens, at, layer);
        figure.el.hidden = at < 0 || theodolite.alone(); // one layer is no way, and its numbers stand above
        if (figure.el.hidden) return;
        if (only === "layer" && !figure.plot.hidden && figure.plot.layout) Plotly.relayout(figure.plot, { shapes: [theodolite.layerMark()] });
        else draw(tokens, at);
      },
    };
  };
})();

// The chosen token: Q, M and V at every layer, and its numbers at the chosen layer.
(() => {
  const { el } = theodolite;
  const LINES = [["Q", "q", 6], ["M", "m", 0], ["V", "v", 1]];

  theodolite.tokenPath = () => {
    const line = el("p", { class: "chosen", role: "status" });
    const picks = el("div", { class: "picks" });
    const contexts = theodolite.tokenContexts();
    const figure = theodolite.figure({
      title: theodolite.reword("The chosen token at every layer"),
      caption: "Q = M + V.",
      file: "token-path",
      height: 300,
      describe: () => theodolite.describeRanges(latest),
      table: () => {
        const [tokens, at] = shown;
        if (!tokens) return { columns: ["layer"], rows: [] };
        const rows = tokens.layers.map((layer, place) => [tokens.key(at), tokens.text[at], tokens.n(place)[at], layer.layer, layer.name, ...LINES.map(([, name]) => Number(tokens[name](place)[at].toPrecision(6)))]);
        return { columns: ["unit", "token", "n", "layer", "layer_name", "q", "m", "v"], rows };
      },
    });
    let latest = [];
    let shown = [null, -1];

    // Offer the most frequent tokens.
    const offer = (tokens) => {
      const often = theodolite.filterTokens(tokens, 1, false).slice(0, 12);
      const button = (at) => el("li", {}, el("button", { type: "button", class: "small", onclick: () => theodolite.choose({ token: at }) }, el("bdi", {}, tokens.text[at])));
      const purpose = theodolite.hasOneLayer() ? "see its numbers" : "see it at every layer";
      picks.replaceChildren(theodolite.reword(`Choose a token to ${purpose}: click a point or a row, search, or use one of these.`), el("ul", {}, ...Array.from(often, button)));
    };
    const showFacts = (tokens, at, layer) => {
      line.hidden = at < 0;
      picks.hidden = at >= 0;
      if (at < 0) {
        offer(tokens);
        return;
      }
      const facts = [...theodolite.tokenFacts(tokens, at, layer), ["M/Q", theodolite.formatNumber(tokens.share(layer)[at], 3)]];
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
        figure.showMessage(theodolite.reword("The token does not occur in this population."));
        return;
      }
      latest = LINES.map(([name, , place], i) => {
        const style = theodolite.lineStyle(place);
        return {
          type: "scatter", mode: "lines+markers", name, x: tokens.layers.map((_, layer) => layer), y: values[i], text: tokens.layers.map((layer) => theodolite.escapeText(layer.name)),
          line: { color: style.colour, dash: style.dash, width: 2 }, marker: { color: style.colour, symbol: style.sign, size: 6, line: { width: 1.4, color: style.colour } },
          customdata: values[i].map((value) => theodolite.formatNumber(value)), hovertemplate: `%{text}<br>${name} %{customdata}<extra></extra>`,
        };
      });
      const most = values[0].filter(Number.isFinite);
      const log = Math.min(...most) > 0 && Math.max(...most) > 50 * Math.min(...most);
      const zero = log && seen.some((value) => value <= 0) ? " (0 is not shown)" : "";
      figure.draw(latest, {
        xaxis: theodolite.layerAxis(tokens.layers, figure.plot.clientWidth), shapes: [theodolite.layerMark()],
        yaxis: { type: log ? "log" : "linear", title: { text: `squared norm${zero}`, standoff: 8 }, ...(log ? { exponentformat: "power" } : { rangemode: "tozero" }) },
      });
    };
    return {
      el: el("div", { class: "path" }, picks, line, contexts.el, figure.el),
      show: (tokens, at, layer, only) => {
        shown = [at < 0 ? null : tokens, at];
        showFacts(tokens, at, layer);
        contexts.show(tokens, at);
        figure.el.hidden = at < 0 || theodolite.hasOneLayer(); // one layer has no curve, and its numbers are above
        if (figure.el.hidden) return;
        if (only === "layer" && !figure.plot.hidden && figure.plot.layout) Plotly.relayout(figure.plot, { shapes: [theodolite.layerMark()] });
        else draw(tokens, at);
      },
    };
  };
})();

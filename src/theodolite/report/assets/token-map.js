// The token map: every unit as a point, V against M or each against frequency, at the chosen layer.
(() => {
  const { el } = theodolite;
  const PLAIN_MOST = 4000;
  const COLOURS = [
    ["n", "frequency"], ["share", "M/Q"], ["q", "Q"], ["m", "M"], ["v", "V"], ["mu", "unbiased M"], ["vu", "unbiased V"],
    ["away", "distance from the line of V on M"],
  ];

  theodolite.section("token-map", (mount) => {
    const { state } = theodolite;
    let tokens = null;
    let kept = new Uint32Array(0); // units that match the filter
    let found = null; // those of them that match the search, or null
    let groups = [];
    let drawn = []; // by trace: the units of its points
    let note = "";
    let cursor = -1;
    let touched = false; // whether the reader has set the minimum n
    let memory = {}; // values that stay until the filter changes: ranges, medians
    let later = 0;
    let over = { found: null, chosen: null }; // what the overlay shows: the matches, and the chosen token
    let ranges = null; // of the axes as drawn

    const axes = theodolite.select("Map", Object.entries(theodolite.tokenAxes).map(([key, { words }]) => [key, words]), "mv", () => map());
    const scale = theodolite.select("Axes", [["log", "logarithmic"], ["linear", "linear"]], "log", () => map());
    const least = el("input", { id: "token-least", type: "number", min: 1, step: 1, value: 10, inputmode: "numeric" });
    const check = (words, checked, onchange) => {
      const box = el("input", { type: "checkbox", checked, onchange });
      return { box, el: el("label", {}, box, ` ${words}`) };
    };
    const special = check(theodolite.reword("special tokens"), true, () => refilter());
    const same = check("same axes at every layer", false, () => map());
    const colour = theodolite.select("Colour", COLOURS.map(([key, words]) => [key, theodolite.reword(words)]), "n", () => regroup());
    const layer = theodolite.slider("Layer", 0, 0, (at) => (theodolite.survey().layers[at] || { name: "–" }).name, (at) => theodolite.choose({ layer: at }));
    theodolite.storeControl("token-map.axes", axes.box);
    theodolite.storeControl("token-map.scale", scale.box);
    theodolite.storeControl("token-map.special", special.box);
    theodolite.storeControl("token-map.same", same.box);
    theodolite.storeControl("token-map.colour", colour.box);
    const storeLeast = theodolite.storeChoice("token-map.least", (word) => {
      touched = Number(word) >= 1;
      if (touched) least.value = Math.round(Number(word));
    });
    const search = theodolite.tokenSearch({
      found: (words) => {
        const all = tokens && theodolite.searchTokens(tokens, words, kept);
        if (!all) return null;
        const rare = all.length ? 0 : theodolite.searchTokens(tokens, words, theodolite.filterTokens(tokens, 1, true, state.layer)).length;
        const hint = rare ? `no match with this minimum n; ${theodolite.formatCount(rare)} with a smaller one` : "no match";
        return { count: all.length, hint, places: theodolite.rankMatches(tokens, words, all, 20) };
      },
      token: (at) => ({ text: tokens.text[at], n: tokens.n(state.layer)[at] }),
      onsearch: () => (updateMatches(), mark(), table.show(tokens, found || kept, state.layer)),
      onchoose: (at) => theodolite.choose({ token: at }),
    });
    const figure = theodolite.figure({
      title: theodolite.reword("Token map"), shows: ["survey", "population", "layer"], file: "token-map", height: 480,
      describe: () => note, extra: () => forPicture(),
      table: () => theodolite.tokenRows(tokens, kept, state.layer),
    });
    const noteLine = el("p", { class: "note" });
    const announcement = el("span", { class: "unseen", role: "status" });
    const path = theodolite.tokenPath();
    const table = theodolite.tokenTable();
    const nothing = el("p", { class: "none", hidden: true });
    const full = el(
      "div", {},
      el(
        "div", { class: "controls" }, search.el, axes.el, colour.el, scale.el,
        el("div", { class: "control" }, el("label", { for: "token-least" }, "Minimum n"), least),
        el("fieldset", { class: "control checks" }, el("legend", {}, "Show"), special.el, same.el),
      ),
      el("div", { class: "token-map" }, el("div", { class: "map" }, figure.el), el("div", { class: "aside" }, path.el)),
      table.el, announcement,
    );
    const overlay = theodolite.pointOverlay(figure.plot);
    figure.el.append(layer.el, noteLine);
    mount.append(nothing, full);

    const refilter = () => {
      filter();
      map();
      table.show(tokens, found || kept, state.layer);
    };
    least.addEventListener("change", () => {
      least.value = Math.max(Math.round(Number(least.value)) || 1, 1);
      storeLeast(least.value);
      refilter();
      search.refresh();
    });
    least.addEventListener("input", () => {
      touched = true;
      if (Number(least.value) < 1) return; // not yet a number to filter by
      storeLeast(least.value);
      refilter();
      search.refresh();
    });

    const filter = () => {
      kept = theodolite.filterTokens(tokens, Math.max(Number(least.value) || 1, 1), special.box.checked, state.layer);
      group();
      memory = {};
      cursor = -1;
      updateMatches();
    };
    const group = () => {
      const shown = theodolite.hasWebgl() ? kept : kept.slice(0, PLAIN_MOST);
      groups = colour.box.value === "n" ? theodolite.tokenGroups(tokens, shown) : theodolite.tokenGroupsBy(tokens, shown, colour.box.value, state.layer);
    };
    const regroup = () => {
      group();
      map();
    };
    const updateMatches = () => (found = theodolite.searchTokens(tokens, search.words(), kept));
    const once = (name, make) => (name in memory ? memory[name] : (memory[name] = make()));

    const range = (name, log) =>
      once(`range ${name} ${log} ${same.box.checked ? "" : state.layer}`, () => theodolite.tokenRange(tokens, kept, name, same.box.checked ? tokens.layers.map((_, at) => at) : [state.layer], log));
    const typical = (at) => once(`median ${at}`, () => theodolite.median(Float32Array.from(kept, (unit) => tokens.q(at)[unit])));

    const axesNow = () => {
      const { x, y, words } = theodolite.tokenAxes[axes.box.value];
      return { x, y, words, log: { x: x === "n" || scale.box.value === "log", y: scale.box.value === "log" } };
    };
    // The matches of the search and the chosen token, over the map.
    const mark = () => {
      const { x, y, log } = axesNow();
      const points = (places) => theodolite.tokenPoints(places, tokens[x](state.layer), tokens[y](state.layer), log);
      over = { found: found && points(found), chosen: null };
      if (state.token >= 0) {
        const trajectory = theodolite.tokenPositions(tokens, x, y, log, state.token);
        over.chosen = { trajectory, now: points([state.token]), labels: theodolite.tokenLabels(tokens, trajectory, log, state.token, ranges) };
      }
      overlay.show(over);
    };
    const forPicture = () => {
      const chosen = over.chosen ? theodolite.tokenTrajectory(over.chosen, axesNow().log) : { traces: [], annotations: [] };
      return { ...chosen, traces: [...(over.found ? [theodolite.tokenMatches(over.found)] : []), ...chosen.traces] };
    };
    // A chosen token is always within the axes.
    const including = (range, value, log) => {
      const at = log ? Math.log10(value) : value;
      return Number.isFinite(at) ? [Math.min(range[0], at - 0.03 * (range[1] - range[0])), Math.max(range[1], at + 0.03 * (range[1] - range[0]))] : range;
    };

    const rangesNow = () => {
      const { x, y, log } = axesNow();
      const made = { x: range(x, log.x), y: range(y, log.y) };
      if (state.token < 0) return made;
      return { x: including(made.x, tokens[x](state.layer)[state.token], log.x), y: including(made.y, tokens[y](state.layer)[state.token], log.y) };
    };
    const drawnRanges = () => ranges && JSON.stringify(ranges) === JSON.stringify(rangesNow());

    const map = () => {
      if (!tokens) return;
      const { x, y, words, log } = axesNow();
      const [xs, ys] = [tokens[x](state.layer), tokens[y](state.layer)];
      const type = theodolite.hasWebgl() ? "scattergl" : "scatter";
      const points = groups.map(({ places }) => theodolite.tokenPoints(places, xs, ys, log));
      ranges = rangesNow();
      const q = typical(state.layer);
      const empty = !points.some(({ at }) => at.length);
      const line = x === "m" && q > 0 && !empty ? [theodolite.tokenConstantQ(q, q * 1e-5)] : [];
      const traces = [...line, ...theodolite.tokenTraces(groups, points, type)];
      drawn = [...line.map(() => null), ...points.map(({ at }) => at)];
      note = describeMap(points, log);
      noteLine.textContent = note;
      const one = theodolite.reword("Each point is a token") + theodolite.atLayer(" at ", "");
      const dashed = x === "m" ? theodolite.reword("The dashed line is V = Q − M for the median Q: tokens on it have the same Q. ") : "";
      const click = theodolite.hasOneLayer() ? "see its numbers" : "follow it over the layers";
      figure.title(words, `${one}, coloured by ${COLOURS.find(([key]) => key === colour.box.value)[1]}. ${dashed}Click a point to ${click}; drag to zoom, double-click to reset.`);
      figure.draw(traces, {
        xaxis: theodolite.tokenAxis(x, log.x, ranges.x), yaxis: theodolite.tokenAxis(y, log.y, ranges.y), showlegend: true,
        annotations: empty ? [{ text: "nothing to draw at this layer", xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, font: { size: 14 } }] : [],
        // The zoom stays when the layer changes, unless each layer has its own axes.
        uirevision: [axes.box.value, scale.box.value, state.survey, same.box.checked ? "" : state.layer].join(),
      });
      listen();
      mark();
    };

    // The number of tokens that are drawn, and why others are not.
    const describeMap = (points, log) => {
      const count = points.reduce((sum, one) => sum + one.at.length, 0);
      const zeros = points.reduce((sum, one) => sum + one.zeros, 0);
      const outside = points.reduce((sum, one) => sum + theodolite.countOutside(one, log, ranges), 0);
      const parts = [`${theodolite.formatCount(count)} of ${theodolite.pluralize(tokens.total, theodolite.reword("token"))} ${count === 1 ? "is" : "are"} drawn: those with n of at least ${theodolite.formatCount(Math.max(Number(least.value), 1))}.`];
      if (tokens.total > tokens.size) parts.push(theodolite.reword(`This page holds ${theodolite.formatCount(tokens.size)}: the most frequent, the farthest from the line of V on M, and the extremes; tokens.parquet has all.`));
      if (zeros) parts.push(`${theodolite.formatCount(zeros)} more ${zeros === 1 ? "has" : "have"} a value of 0, which a logarithmic axis cannot show.`);
      if (outside) parts.push(`${theodolite.formatCount(outside)} of them ${outside === 1 ? "is" : "are"} outside the axes.`);
      const absent = groups.reduce((sum, { places }) => sum + places.length, 0) - count - zeros;
      if (absent) parts.push(`${theodolite.formatCount(absent)} ${absent === 1 ? "has" : "have"} no M and V${theodolite.reword(" at this layer")}.`);
      const rarest = theodolite.survey().min_count;
      if (rarest > 1 && Number(least.value) < rarest) parts.push(theodolite.reword(`Tokens with n below ${theodolite.formatCount(rarest)} have no vector (min_count), except for a sample of them; others have no M and V.`));
      if (!kept.length) parts.push("Choose a smaller minimum n.");
      if (!theodolite.hasWebgl() && kept.length > PLAIN_MOST) parts.push(`This browser has no WebGL, so the map shows only the ${theodolite.formatCount(PLAIN_MOST)} most frequent; the table has all.`);
      return parts.join(" ");
    };
    const lines = (at) => {
      const near = theodolite.neighboursOf(at);
      const words = near ? near.slice(0, 4).map((one) => tokens.text[one.at]).join(", ") : "";
      const facts = theodolite.tokenFacts(tokens, at, state.layer).map((pair) => pair.join(" ")).join("  ");
      return [el("bdi", {}, tokens.text[at]), facts, ...(words ? [`near: ${words}`] : []), ...theodolite.contextsOf(at).slice(0, 2).map(theodolite.contextLine)];
    };
    let listening = false;
    const listen = () => {
      if (listening) return;
      listening = true;
      const unit = (event) => (drawn[event.points[0].curveNumber] || [])[event.points[0].pointNumber];
      figure.plot.on("plotly_hover", (event) => {
        const at = unit(event);
        if (at !== undefined) theodolite.tooltip.show(event.event.clientX, event.event.clientY, lines(at));
      });
      figure.plot.on("plotly_unhover", theodolite.tooltip.hide);
      figure.plot.on("plotly_click", (event) => unit(event) !== undefined && theodolite.choose({ token: unit(event) }));
    };
    // Left and right change the layer; up and down go from token to token, most frequent first, and Enter chooses.
    theodolite.layerKeys(figure.plot, {
      ArrowUp: () => walk(-1),
      ArrowDown: () => walk(1),
      Enter: () => cursor >= 0 && theodolite.choose({ token: (found || kept)[cursor] }),
      Escape: () => theodolite.tooltip.hide(),
    });
    figure.plot.addEventListener("blur", () => theodolite.tooltip.hide());
    const walk = (step) => {
      const places = found || kept;
      if (!places.length) return;
      cursor = Math.min(Math.max(cursor + step, 0), places.length - 1);
      const at = places[cursor];
      announcement.textContent = theodolite.tokenFacts(tokens, at, state.layer).reduce((words, pair) => `${words}, ${pair.join(" ")}`, tokens.text[at]);
      const { xaxis, yaxis } = figure.plot._fullLayout;
      const { x, y } = theodolite.tokenAxes[axes.box.value];
      const frame = figure.plot.getBoundingClientRect();
      const pixel = (axis, value) => Math.min(Math.max(axis.d2p(value) || 0, 0), axis._length) + axis._offset;
      theodolite.tooltip.show(frame.left + pixel(xaxis, tokens[x](state.layer)[at]), frame.top + pixel(yaxis, tokens[y](state.layer)[at]), lines(at));
    };

    const update = (changed) => {
      const fresh = !changed || changed.has("survey") || changed.has("population");
      if (changed && !["survey", "population", "layer", "token"].some((key) => changed.has(key))) return;
      tokens = theodolite.tokens();
      full.hidden = !tokens;
      nothing.hidden = Boolean(tokens);
      nothing.textContent = `${theodolite.reword("The survey has no token table for")} “${state.population}”. Choose another population or survey.`;
      if (!tokens) return;
      layer.set(state.layer, Math.max(tokens.layers.length - 1, 0));
      layer.el.hidden = same.el.hidden = theodolite.hasOneLayer();
      special.el.hidden = !tokens.special.includes(1);
      special.el.parentElement.hidden = special.el.hidden && same.el.hidden;
      if (fresh) {
        if (!touched) least.value = theodolite.defaultLeastCount(tokens);
        if (changed && changed.has("survey")) search.clear();
        filter();
      }
      if (!fresh && tokens.varies && changed.has("layer")) filter();
      else if (!fresh && colour.box.value !== "n" && changed.has("layer")) group();
      // A chosen token within the axes is drawn over the map.
      if (changed && changed.size === 1 && changed.has("token") && drawnRanges()) mark();
      else map();
      path.show(tokens, state.token, state.layer, changed && changed.size === 1 && changed.has("layer") ? "layer" : "");
      clearTimeout(later);
      if (fresh) table.show(tokens, found || kept, state.layer);
      // The table follows when the slider stops.
      else if (changed.has("layer")) later = setTimeout(() => table.show(tokens, found || kept, state.layer), 60);
      if (!changed || changed.has("token")) table.mark();
    };
    return { update };
  });
})();

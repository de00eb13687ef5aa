// Occurrences of a token with the text around them, and the tokens whose mean vectors are nearest at a layer.
(() => {
  const { el } = theodolite;

  // Places of entries by a number, such as those of a unit.
  const indexBy = (numbers) => {
    const index = new Map();
    numbers.forEach((number, at) => (index.has(number) ? index.get(number).push(at) : index.set(number, [at])));
    return index;
  };
  const entry = (held, at) => {
    const [before, text, after] = held.text.slice(3 * at, 3 * at + 3);
    return { before, text, after, document: theodolite.column(held.document)[at], position: theodolite.column(held.position)[at] };
  };
  const occurrences = (held, key, number) => {
    if (!held || !held.text) return [];
    held.index = held.index || indexBy(theodolite.column(held[key]));
    return (held.index.get(number) || []).map((at) => entry(held, at));
  };

  theodolite.contextsOf = (unit, survey = theodolite.survey()) => occurrences(survey.contexts, "unit", unit);
  // The position of a vector of the sample, with its text if the page has it; null if it is unknown.
  theodolite.pointContext = (row, survey = theodolite.survey()) => occurrences(survey.points, "row", row)[0] || null;

  // [{at, cosine}], nearest first; null if the page has none for this token.
  theodolite.neighboursOf = (unit, layer = theodolite.state.layer, survey = theodolite.survey()) => {
    const held = survey.neighbours;
    const found = held && held.layers && held.layers[layer];
    if (!found) return null;
    held.index = held.index || indexBy(theodolite.column(held.units));
    if (!held.index.has(unit)) return null;
    const from = held.index.get(unit)[0] * held.nearest;
    const [near, level] = [theodolite.column(found.near), theodolite.column(found.cosine)];
    const made = [];
    for (let at = from; at < from + held.nearest; at += 1) {
      if (near[at] < 65535) made.push({ at: near[at], cosine: found.low + (level[at] / 255) * (found.high - found.low) });
    }
    return made;
  };

  // One occurrence as a line of text, the token marked, without the space before it.
  theodolite.contextLine = ({ before, text, after }) => {
    const [, space, token] = /^(\s*)([^]*)$/.exec(text);
    return el("bdi", {}, `${before ? `…${before}` : ""}${token ? space : ""}`, el("mark", {}, token || space), after ? `${after}…` : "");
  };

  theodolite.tokenContexts = () => {
    const near = el("div", { class: "near" });
    const lines = el("ul", { class: "contexts" });
    const element = el("div", { class: "occurrences", hidden: true }, near, lines);
    return {
      el: element,
      show: (tokens, at) => {
        element.hidden = at < 0;
        if (at < 0) return;
        const found = theodolite.neighboursOf(at);
        const pick = (place) => el("button", { type: "button", class: "small", onclick: () => theodolite.choose({ token: place }) }, el("bdi", {}, tokens.text[place]));
        const population = theodolite.survey().neighbours?.population;
        near.replaceChildren(
          ...(found && found.length
            ? [
                el("h4", {}, `Nearest tokens${theodolite.atLayer(" at ", "")}`),
                el("p", { class: "quiet" }, `by the cosine of their means (${population})`),
                el("ol", {}, ...found.map(({ at: place, cosine }) => el("li", {}, pick(place), ` ${cosine.toFixed(3)}`))),
              ]
            : []),
        );
        const seen = theodolite.contextsOf(at);
        lines.replaceChildren(...seen.map((one) => el("li", { title: `document ${one.document}, position ${one.position}` }, theodolite.contextLine(one))));
        if (seen.length) lines.prepend(el("li", { class: "head" }, el("h4", {}, "In context")));
        else if (theodolite.survey().contexts?.text) lines.replaceChildren(el("li", { class: "quiet" }, "The page holds no occurrence of this token; contexts.parquet may."));
      },
    };
  };
})();

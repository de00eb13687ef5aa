// The token table of a survey: n of each unit, and M, V and Q = M + V of every unit at a layer.
(() => {
  // By default of the chosen population; null if the survey has no units for it.
  theodolite.tokens = (population = theodolite.state.population, survey = theodolite.survey()) => {
    const found = survey && theodolite.tokenColumns(population, survey);
    if (!found || !survey.units.text.length) return null;
    found.read = found.read || read(found, survey);
    return found.read;
  };

  // n, M and V as packed columns. A population may be equal to another one.
  theodolite.tokenColumns = (population, survey = theodolite.survey()) => {
    const found = survey.tokens[population];
    return found && found.same ? survey.tokens[found.same] : found;
  };

  const read = (found, survey) => {
    const size = survey.units.text.length;
    const most = theodolite.column(found.n);
    const row = (column) => (layer) => theodolite.column(found[column]).subarray(layer * size, (layer + 1) * size);
    const [m, v] = [row("m"), row("v")];
    // Computed once per layer.
    const made = (make) => {
      const known = [];
      return (layer) => (known[layer] = known[layer] || make(layer));
    };
    // Without massive vectors, n of a unit may be smaller at some layers.
    const fewer = found.fewer && found.fewer.map(theodolite.column);
    const few = made((layer) => {
      const seen = most.slice();
      fewer[0].forEach((where, i) => where === layer && (seen[fewer[1][i]] = fewer[2][i]));
      return seen;
    });
    const n = (layer) => (fewer && layer !== undefined ? few(layer) : most);
    const q = made((layer) => {
      const spread = v(layer);
      return m(layer).map((value, at) => value + spread[at]);
    });
    const share = made((layer) => {
      const whole = q(layer);
      return m(layer).map((value, at) => value / whole[at]);
    });
    const every = (change) => made((layer) => {
      const [own, mean, spread] = [n(layer), m(layer), v(layer)];
      return mean.map((_, at) => (own[at] > 1 ? change(own[at], mean[at], spread[at]) : NaN));
    });
    const mu = every((count, mean, spread) => mean - spread / (count - 1));
    const vu = every((count, mean, spread) => (count * spread) / (count - 1));
    const away = made((layer) => theodolite.distanceFromFit(n(layer), m(layer), v(layer)));
    const key = (at) => survey.units.key[at] ?? survey.units.text[at];
    return { size, total: survey.units.total, key, mu, vu, away, text: survey.units.text, special: theodolite.column(survey.units.special), layers: survey.layers, varies: Boolean(fewer), n, m, v, q, share };
  };

  // How far V of each unit is from the line of V on M over the units with n of at least 10, in standard deviations.
  theodolite.distanceFromFit = (n, m, v) => {
    const used = [...m.keys()].filter((at) => n[at] >= 10 && Number.isFinite(m[at]) && Number.isFinite(v[at]));
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const [mm, mv] = [mean(used.map((at) => m[at])), mean(used.map((at) => v[at]))];
    const slope = mean(used.map((at) => (m[at] - mm) * (v[at] - mv))) / mean(used.map((at) => (m[at] - mm) ** 2));
    const left = (at) => v[at] - mv - slope * (m[at] - mm);
    const deviation = Math.sqrt(mean(used.map((at) => left(at) ** 2)));
    return Float32Array.from(m, (_, at) => (used.length > 2 && deviation > 0 ? left(at) / deviation : NaN));
  };

  // Indices of the units that occur at least `least` times at a layer, most frequent first.
  theodolite.filterTokens = (tokens, least, special, layer) => {
    const n = tokens.n(layer);
    const kept = [];
    for (let at = 0; at < tokens.size; at += 1) if (n[at] > 0 && n[at] >= least && (special || !tokens.special[at])) kept.push(at);
    return Uint32Array.from(kept.sort((a, b) => n[b] - n[a] || a - b));
  };

  // 10, as in the papers, or less if fewer than 50 units occur that often. V of a unit that occurs once is 0 by definition.
  theodolite.defaultLeastCount = (tokens) => {
    const n = tokens.n();
    const enough = (least) => n.reduce((sum, one) => sum + (one >= least), 0) >= 50;
    return [10, 5, 3, 2].find(enough) || 1;
  };

  // [name, value] of a unit at a layer, for the tooltip and the line of the chosen token.
  theodolite.tokenFacts = (tokens, at, layer) => [
    ["n", theodolite.formatCount(tokens.n(layer)[at])],
    ["Q", theodolite.formatNumber(tokens.q(layer)[at])],
    ["M", theodolite.formatNumber(tokens.m(layer)[at])],
    ["V", theodolite.formatNumber(tokens.v(layer)[at])],
  ];

  // The units as a table to save, with six digits: M and V on the page are accurate to one part in 130,000.
  theodolite.tokenRows = (tokens, places, layer) => {
    const six = (value) => Number(value.toPrecision(6));
    const numbers = ["q", "m", "v", "share"].map((name) => tokens[name](layer));
    const row = (at) => [
      tokens.key(at), tokens.text[at], tokens.n(layer)[at], ...numbers.map((column) => six(column[at])), tokens.special[at] ? 1 : 0,
      tokens.layers[layer].layer, theodolite.state.population,
    ];
    return { columns: ["unit", "token", "n", "q", "m", "v", "m_share", "special", "layer", "population"], rows: Array.from(places, row) };
  };

  // Indices of the units whose text contains the search text in any case; a space matches the visible space sign.
  const lower = new WeakMap();
  theodolite.searchTokens = (tokens, words, kept) => {
    const sought = words.replaceAll(" ", "␣").toLowerCase();
    if (!sought) return null;
    if (!lower.has(tokens.text)) lower.set(tokens.text, tokens.text.map((text) => text.toLowerCase()));
    const texts = lower.get(tokens.text);
    const found = kept.filter((at) => texts[at].includes(sought));
    const bare = sought.replace(/␣+$/, "");
    return found.length || !bare || bare === sought ? found : kept.filter((at) => texts[at].includes(bare));
  };
  // Exact matches first (a leading space is ignored), then the most frequent.
  theodolite.rankMatches = (tokens, words, found, most) => {
    const sought = words.replaceAll(" ", "␣").replace(/^␣/, "").toLowerCase();
    const exact = (at) => tokens.text[at].toLowerCase().replace(/^␣/, "") === sought;
    const first = found.filter(exact).slice(0, most);
    const chosen = new Set(first);
    for (const at of found) {
      if (chosen.size >= most) break;
      chosen.add(at);
    }
    return [...chosen];
  };
})();

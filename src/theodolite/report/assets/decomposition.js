// The decomposition Q = M + V_W + V_B: one bar per layer, for one population or two beside each other.
(() => {
  const { el } = theodolite;
  const units = {
    "": "all units",
    filtered_: "units with 1 ≤ log10 n ≤ 5",
    text_: "units with 1 ≤ log10 n ≤ 5, not special",
    unfiltered_text_: "units that are not special",
  };
  // Order, colours and patterns are those of the exhibits; V is one piece if it is not divided into V_W and V_B.
  const parts = [
    { key: "m", name: "M, the mean", colour: "b0", pattern: "" },
    { key: "v_within", name: "V_W, within units", colour: "b1", pattern: "/" },
    { key: "v_between", name: "V_B, between units", colour: "b2", pattern: "." },
    { key: "v", name: "V, total", colour: "b3", pattern: "x" },
  ];
  const HATCH = "#1d2226"; // the fills are light in both themes
  const named = (options) => options.map(([value, words]) => [value, theodolite.reword(words)]);
  const percent = (value) => (Number.isFinite(value) ? `${theodolite.formatNumber(100 * value, 3)}%` : "–");

  // Q and its parts at each layer; either V_W and V_B, or V.
  const decompose = (population, set) => {
    const at = (column, layer) => {
      const found = theodolite.profile(set + column, population);
      return found ? found[layer] : NaN;
    };
    return theodolite.survey().layers.map((_, layer) => {
      const row = { q: at("q", layer), m: at("m", layer), v_between: at("v_between", layer), v_within: at("v_within", layer), v: at("v", layer), whole: at("v", layer) };
      if (Number.isFinite(row.v_within) && Number.isFinite(row.v_between)) row.v = NaN;
      else row.v_within = row.v_between = NaN;
      return row;
    });
  };

  // One chart: the bars of one population.
  const panel = (choice) => {
    const rows = () => decompose(choice.population(), choice.set());
    const figure = theodolite.figure({
      title: "Decomposition of the norm",
      shows: ["survey"],
      get file() {
        return `decomposition-${choice.population()}`;
      },
      height: 340,
      describe: () => `${choice.population()}, shares of Q${theodolite.hasOneLayer() ? "" : " by layer"}. ${theodolite.describeRanges(parts.map(({ key, name }) => ({ name: theodolite.reword(name), y: rows().map((row) => row[key] / row.q) })).filter(({ y }) => y.some(Number.isFinite)))}`,
      table: () => ({
        columns: ["layer", "layer_name", "population", "units", "q", ...parts.map(({ key }) => key), ...parts.map(({ key }) => `${key}_of_q`)],
        rows: rows().map((row, at) => {
          const { layer, name } = theodolite.survey().layers[at];
          const values = parts.map(({ key }) => (key === "v" ? row.whole : row[key]));
          return [layer, name, choice.population(), units[choice.set()], row.q, ...values, ...values.map((value) => value / row.q)];
        }),
      }),
    });
    let listening = false;
    theodolite.layerKeys(figure.plot);
    const draw = () => {
      const population = choice.population();
      const { layers } = theodolite.survey();
      const shares = choice.shares();
      const found = rows();
      figure.title(population, shares ? "Shares of Q, the mean squared norm." : "Q, the mean squared norm, and its parts. Each panel has its own axis.");
      if (!found.some((row) => row.q > 0)) {
        const zero = found.some((row) => row.q === 0);
        figure.showMessage(zero ? "Q is 0 because every vector is zero." : theodolite.reason(`${choice.set()}q`, population));
        return;
      }
      const traces = parts
        .filter(({ key }) => found.some((row) => Number.isFinite(row[key])))
        .map(({ key, name: preset, colour, pattern }) => [key, theodolite.reword(preset), colour, pattern])
        .map(([key, name, colour, pattern]) => ({
          type: "bar", name, x: found.map((_, at) => at), y: found.map((row) => (shares ? row[key] / row.q : row[key])),
          marker: {
            color: theodolite.colour(colour), line: { width: 0.5, color: theodolite.colour("card") },
            pattern: { shape: pattern, size: 6, solidity: 0.18, fillmode: "overlay", fgcolor: HATCH, fgopacity: 0.55 },
          },
          customdata: found.map((row, at) => [theodolite.escapeText(layers[at].name), percent(row[key] / row.q), theodolite.formatNumber(row[key])]),
          hovertemplate: `%{customdata[0]}<br>${name}<br>%{customdata[1]} of Q (%{customdata[2]})<extra></extra>`,
        }));
      figure.draw(traces, {
        barmode: "stack", bargap: theodolite.hasOneLayer() ? 0.8 : 0.12, showlegend: true, dragmode: false, margin: { l: 48, r: 24, t: 12, b: 44 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
        xaxis: { ...theodolite.layerAxis(layers, figure.plot.clientWidth), range: [-0.6, layers.length - 0.4], showgrid: false, fixedrange: true },
        yaxis: shares ? { range: [0, 1.001], tickformat: ".0%", fixedrange: true } : { rangemode: "tozero", fixedrange: true },
        shapes: chosen(),
      });
      if (listening) return;
      listening = true;
      figure.plot.on("plotly_click", ({ points }) => theodolite.choose({ layer: points[0].x }));
    };
    return { figure, draw, mark: () => figure.plot.data && Plotly.relayout(figure.plot, { shapes: chosen() }) };
  };
  const differ = (one, other, set) => {
    const rows = decompose(other, set);
    return decompose(one, set).some((row, at) => row.q !== rows[at].q || row.m !== rows[at].m);
  };
  const chosen = () => theodolite.hasOneLayer() ? [] : [{
    type: "rect", x0: theodolite.state.layer - 0.5, x1: theodolite.state.layer + 0.5, y0: 0, y1: 1, yref: "paper",
    line: { color: theodolite.colour("ink"), width: 2 }, fillcolor: "rgba(0,0,0,0)",
  }];
  const words = (row) =>
    parts
      .filter(({ key }) => Number.isFinite(row[key]))
      .map(({ key, name }) => `${name.split(",")[0]} ${percent(row[key] / row.q)}`)
      .join(", ") || "undefined";

  theodolite.section("decomposition", (mount) => {
    const set = theodolite.select(theodolite.reword("Units"), named(Object.entries(units)), "", () => update(null));
    const amount = theodolite.select("Amount", [["shares", "shares of Q"], ["absolute", "absolute"]], "shares", () => update(null));
    const other = theodolite.select("Compare with", [["", "nothing"]], "", () => {
      compared = other.box.value;
      keepBeside(compared || "nothing");
      update(null);
    });
    let compared = null; // the population that the reader chose to compare with; null until then
    const keepBeside = theodolite.storeChoice("decomposition.beside", (word) => (compared = word === "nothing" ? "" : word ?? null));
    theodolite.storeControl("decomposition.units", set.box);
    theodolite.storeControl("decomposition.amount", amount.box);
    const choice = { set: () => set.box.value, shares: () => amount.box.value === "shares" };
    const left = panel({ ...choice, population: () => theodolite.state.population });
    const right = panel({ ...choice, population: () => other.box.value });
    const summary = el("p", { class: "meaning" });
    mount.append(el("div", { class: "controls" }, set.el, amount.el, other.el), summary, el("div", { class: "pair" }, left.figure.el, right.figure.el));

    const refill = (control, options, value) => {
      control.box.replaceChildren(...options.map(([given, text]) => el("option", { value: given }, text)));
      control.set(options.some(([given]) => given === value) ? value : options[0][0]);
      control.el.hidden = options.length < 2;
    };
    const fill = () => {
      const { populations } = theodolite.survey();
      const now = theodolite.state.population;
      const has = (name, prefix) => theodolite.profile(`${prefix}q`, name) && theodolite.profile(`${prefix}m`, name);
      const sets = Object.entries(units).filter(([prefix]) => populations.some((name) => has(name, prefix)));
      refill(set, named(sets.length ? sets : [["", units[""]]]), set.box.value);
      const others = populations.filter((name) => name !== now && has(name, set.box.value));
      // By default compare with a population that differs: without massive positions the two are the same.
      const preferred = now === "without-massive" ? "all" : "without-massive";
      const preset = others.includes(preferred) && differ(now, preferred, set.box.value) ? preferred : "";
      refill(other, [["", "nothing"], ...others.map((name) => [name, name])], compared === "" || (compared !== now && others.includes(compared)) ? compared : preset);
    };
    const showSummary = () => {
      const layer = theodolite.state.layer;
      const line = (name) => {
        const row = decompose(name, set.box.value)[layer] || {};
        return `${name}: Q = ${theodolite.formatNumber(row.q)}; ${words(row)}`;
      };
      const shown = [theodolite.state.population, other.box.value].filter(Boolean);
      const whole = shown.some((name) => Number.isFinite((decompose(name, set.box.value)[layer] || {}).v));
      const reason = whole && theodolite.reason(`${set.box.value}v_within`, theodolite.state.population, theodolite.survey(), "the survey has no variance within units");
      const why = whole ? ` V is not divided into V_W and V_B: ${reason}.` : "";
      summary.textContent = `${theodolite.atLayer("At ", ", ")}${shown.map(line).join(". ")}.${why}`;
    };
    const update = (changed) => {
      const moved = changed && !changed.has("survey") && !changed.has("population");
      if (moved && !changed.has("layer")) return;
      if (!moved) fill();
      showSummary();
      right.figure.el.hidden = !other.box.value;
      const panels = other.box.value ? [left, right] : [left];
      panels.forEach((one) => (moved ? one.mark() : one.draw()));
    };
    return { update };
  });
})();

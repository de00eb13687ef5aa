// Where the length comes from: Q = M + V_W + V_B, a bar a layer, one population beside another.
(() => {
  const { el } = theodolite;
  const units = {
    "": "all units",
    filtered_: "units with 1 ≤ log10 n ≤ 5",
    text_: "the same, none special",
    unfiltered_text_: "units that are not special",
  };
  // Order, colours and patterns are those of the drawn exhibits; V stands whole where it cannot be divided.
  const pieces = [
    { key: "m", name: "M, the mean", colour: "b0", pattern: "" },
    { key: "v_within", name: "V_W, within units", colour: "b1", pattern: "/" },
    { key: "v_between", name: "V_B, between units", colour: "b2", pattern: "." },
    { key: "v", name: "V, undivided", colour: "b3", pattern: "x" },
  ];
  const HATCH = "#1d2226"; // the fills are light in both themes
  const named = (options) => options.map(([value, words]) => [value, theodolite.said(words)]);
  const percent = (value) => (Number.isFinite(value) ? `${theodolite.show(100 * value, 3)}%` : "–");

  // Q and its pieces at each layer; of V either the two pieces or the whole.
  const divided = (population, set) => {
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

  // One chart: a population's bars.
  const panel = (choice) => {
    const rows = () => divided(choice.population(), choice.set());
    const figure = theodolite.figure({
      title: "Where the length comes from",
      shows: ["survey"],
      get file() {
        return `decomposition-${choice.population()}`;
      },
      height: 340,
      describe: () => `${choice.population()}, shares of Q${theodolite.alone() ? "" : " by layer"}. ${theodolite.spans(pieces.map(({ key, name }) => ({ name: theodolite.said(name), y: rows().map((row) => row[key] / row.q) })).filter(({ y }) => y.some(Number.isFinite)))}`,
      table: () => ({
        columns: ["layer", "layer_name", "population", "units", "q", ...pieces.map(({ key }) => key), ...pieces.map(({ key }) => `${key}_of_q`)],
        rows: rows().map((row, at) => {
          const { layer, name } = theodolite.survey().layers[at];
          const values = pieces.map(({ key }) => (key === "v" ? row.whole : row[key]));
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
      figure.title(population, shares ? "Shares of Q, the mean squared norm." : "Q, the mean squared norm, and its pieces; each panel has its own axis.");
      if (!found.some((row) => row.q > 0)) {
        const zero = found.some((row) => row.q === 0);
        figure.none(zero ? "Q is 0: every vector is zero, and nothing can be divided." : theodolite.reason(`${choice.set()}q`, population));
        return;
      }
      const traces = pieces
        .filter(({ key }) => found.some((row) => Number.isFinite(row[key])))
        .map(({ key, name: usual, colour, pattern }) => [key, theodolite.said(usual), colour, pattern])
        .map(([key, name, colour, pattern]) => ({
          type: "bar", name, x: found.map((_, at) => at), y: found.map((row) => (shares ? row[key] / row.q : row[key])),
          marker: {
            color: theodolite.colour(colour), line: { width: 0.5, color: theodolite.colour("card") },
            pattern: { shape: pattern, size: 6, solidity: 0.18, fillmode: "overlay", fgcolor: HATCH, fgopacity: 0.55 },
          },
          customdata: found.map((row, at) => [theodolite.words(layers[at].name), percent(row[key] / row.q), theodolite.show(row[key])]),
          hovertemplate: `%{customdata[0]}<br>${name}<br>%{customdata[1]} of Q (%{customdata[2]})<extra></extra>`,
        }));
      figure.draw(traces, {
        barmode: "stack", bargap: theodolite.alone() ? 0.8 : 0.12, showlegend: true, dragmode: false, margin: { l: 48, r: 24, t: 12, b: 44 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
        xaxis: { ...theodolite.layerAxis(layers, figure.plot.clientWidth), range: [-0.6, layers.length - 0.4], showgrid: false, fixedrange: true },
        yaxis: shares ? { range: [0, 1.001], tickformat: ".0%", fixedrange: true } : { rangemode: "tozero", fixedrange: true, exponentformat: "power" },
        shapes: chosen(),
      });
      if (listening) return;
      listening = true;
      figure.plot.on("plotly_click", ({ points }) => theodolite.choose({ layer: points[0].x }));
    };
    return { figure, draw, mark: () => figure.plot.data && Plotly.relayout(figure.plot, { shapes: chosen() }) };
  };
  const differ = (one, other, set) => {
    const rows = divided(other, set);
    return divided(one, set).some((row, at) => row.q !== rows[at].q || row.m !== rows[at].m);
  };
  const chosen = () => theodolite.alone() ? [] : [{
    type: "rect", x0: theodolite.state.layer - 0.5, x1: theodolite.state.layer + 0.5, y0: 0, y1: 1, yref: "paper",
    line: { color: theodolite.colour("ink"), width: 2 }, fillcolor: "rgba(0,0,0,0)",
  }];
  const words = (row) =>
    pieces
      .filter(({ key }) => Number.isFinite(row[key]))
      .map(({ key, name }) => `${name.split(",")[0]} ${percent(row[key] / row.q)}`)
      .join(", ") || "undefined";

  theodolite.part("decomposition", (mount) => {
    const set = theodolite.select(theodolite.said("Units"), named(Object.entries(units)), "", () => update(null));
    const amount = theodolite.select("Amount", [["shares", "shares of Q"], ["absolute", "absolute"]], "shares", () => update(null));
    const other = theodolite.select("Beside", [["", "nothing"]], "", () => {
      wanted = other.box.value;
      keepBeside(wanted || "nothing");
      update(null);
    });
    let wanted = null; // what the reader chose to have beside; null until then
    const keepBeside = theodolite.keep("decomposition.beside", (word) => (wanted = word === "nothing" ? "" : word ?? null));
    theodolite.keepBox("decomposition.units", set.box);
    theodolite.keepBox("decomposition.amount", amount.box);
    const choice = { set: () => set.box.value, shares: () => amount.box.value === "shares" };
    const left = panel({ ...choice, population: () => theodolite.state.population });
    const right = panel({ ...choice, population: () => other.box.value });
    const told = el("p", { class: "meaning" });
    mount.append(el("div", { class: "controls" }, set.el, amount.el, other.el), told, el("div", { class: "pair" }, left.figure.el, right.figure.el));

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
      // The same bars twice say nothing: without massive positions the two are one population.
      const spare = now === "without-massive" ? "all" : "without-massive";
      const usual = others.includes(spare) && differ(now, spare, set.box.value) ? spare : "";
      refill(other, [["", "nothing"], ...others.map((name) => [name, name])], wanted === "" || (wanted !== now && others.includes(wanted)) ? wanted : usual);
    };
    const tell = () => {
      const layer = theodolite.state.layer;
      const line = (name) => {
        const row = divided(name, set.box.value)[layer] || {};
        return `${name}: Q = ${theodolite.show(row.q)}; ${words(row)}`;
      };
      const shown = [theodolite.state.population, other.box.value].filter(Boolean);
      const whole = shown.some((name) => Number.isFinite((divided(name, set.box.value)[layer] || {}).v));
      const said = whole && theodolite.reason(`${set.box.value}v_within`, theodolite.state.population, theodolite.survey(), "the survey tells no spread within units");
      const why = whole ? ` V is not divided here: ${said}.` : "";
      told.textContent = `${theodolite.atLayer("At ", ", ")}${shown.map(line).join(". ")}.${why}`;
    };
    const update = (changed) => {
      const moved = changed && !changed.has("survey") && !changed.has("population");
      if (moved && !changed.has("layer")) return;
      if (!moved) fill();
      tell();
      right.figure.el.hidden = !other.box.value;
      const panels = other.box.value ? [left, right] : [left];
      panels.forEach((one) => (moved ? one.mark() : one.draw()));
    };
    return { update };
  });
})();

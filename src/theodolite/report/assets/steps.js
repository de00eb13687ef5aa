// Checkpoints of a training: a measure by layer at each step, its mean over layers by step, and attention.
(() => {
  const { el } = theodolite;

  // Viridis, which is ordered also for colour-blind readers, without the end that is close to the background.
  const viridis = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const ramp = (share) => {
    const dark = channels(theodolite.colour("card").replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3")).reduce((a, b) => a + b) < 384;
    const place = (dark ? 0.22 + 0.78 * share : 0.92 * share) * (viridis.length - 1);
    const low = Math.min(Math.floor(place), viridis.length - 2);
    const [from, to] = [channels(viridis[low]), channels(viridis[low + 1])];
    return `rgb(${from.map((value, at) => Math.round(value + (to[at] - value) * (place - low))).join(",")})`;
  };

  // An axis of steps: logarithmic for a wide range, with step 0 a little before the first other step.
  const WIDE = 30;
  const stepAxis = (steps, asked) => {
    const positive = steps.filter((step) => step > 0);
    const first = Math.min(...positive);
    const log = positive.length > 0 && (asked === "log" || (asked === "auto" && positive.length > 1 && Math.max(...positive) >= WIDE * first));
    const place = (step) => (log ? (step > 0 ? Math.log10(step) : Math.log10(first) - 0.4) : step);
    const known = [...new Set(steps)].sort((a, b) => a - b);
    const span = place(known[known.length - 1]) - place(known[0]) || 1;
    // Labels from the last step backwards, as many as fit.
    const ticks = [];
    [...known].reverse().forEach((step) => {
      if (!ticks.length || place(ticks[ticks.length - 1]) - place(step) >= span / 11) ticks.push(step);
    });
    const pad = span * 0.04;
    return {
      place,
      axis: {
        tickvals: ticks.map(place), ticktext: ticks.map(theodolite.formatCount), title: { text: log ? "training step (logarithmic)" : "training step", standoff: 8 },
        range: [place(known[0]) - pad, place(known[known.length - 1]) + pad],
      },
    };
  };
  const shown = (values) => Array.from(values, (value) => theodolite.formatNumber(value));

  theodolite.section("steps", (mount) => {
    const all = theodolite.data.series;
    const { state } = theodolite;
    const chosen = () => all[Math.min(state.series, all.length - 1)];
    const usual = () => (chosen().populations.includes(state.population) ? state.population : chosen().populations[0]);
    let population = usual();
    let latest = [];
    let timer = null;

    const at = () => (state.step < 0 ? chosen().steps.length - 1 : Math.min(state.step, chosen().steps.length - 1));
    const row = (column, step) => {
      const found = chosen().profiles[population];
      const matrix = found && theodolite.column(found.columns[column]);
      const wide = chosen().layers.length;
      return matrix ? matrix.subarray(step * wide, (step + 1) * wide) : null;
    };
    // The training's own batches are measured over the windows that end at some of the steps.
    const BATCHES = "training-batches";
    const means = (series, scope) => {
      const { averages, steps } = scope === BATCHES ? series.batches : series;
      const found = (((averages || {})[population] || {})[scope] || {})[state.measure];
      return found && { steps, mean: theodolite.column(found.mean), se: theodolite.column(found.se), over: found.over };
    };
    const stepLabel = (step) => `step ${theodolite.formatCount(step)}`;

    // Controls.
    const series = theodolite.select("Series", all.map((one, place) => [place, one.name]), state.series, (value) => theodolite.choose({ series: Number(value), step: nearest(all[Number(value)]) }));
    const nearest = (other) => {
      const here = chosen().steps[at()];
      const off = other.steps.map((step) => Math.abs(step - here));
      return off.indexOf(Math.min(...off));
    };
    const measure = theodolite.select("Measure", [], "", (value) => theodolite.choose({ measure: value }));
    const positions = theodolite.select("Population", [], "", (value) => {
      population = value;
      storePopulation(value === usual() ? undefined : value);
      update(null);
    });
    const storePopulation = theodolite.storeChoice("steps.positions", (word) => (population = chosen().populations.includes(word) ? word : usual()));
    const axis = theodolite.select("Step axis", [["auto", "automatic"], ["linear", "linear"], ["log", "logarithmic"]], "auto", () => update(null));
    theodolite.storeControl("steps.axis", axis.box);
    const slider = theodolite.slider("Step", 0, 0, (place) => theodolite.formatCount(chosen().steps[place]), (place) => theodolite.choose({ step: place }));
    const play = el("button", { type: "button", onclick: () => (timer ? stop() : start()) }, "Play");
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
    };
    const start = () => {
      if (at() === chosen().steps.length - 1) theodolite.choose({ step: 0 });
      play.textContent = "Pause";
      timer = setInterval(() => {
        if (at() >= chosen().steps.length - 1) stop();
        else theodolite.choose({ step: at() + 1 });
      }, 700);
    };
    const meaning = el("p", { class: "meaning", "aria-live": "polite" });

    // Figures.
    const byLayer = theodolite.figure({
      shows: [], title: "Layer by layer", file: "steps-by-layer", height: 400,
      describe: () => {
        const y = row(state.measure, at());
        return y ? theodolite.describeRanges([{ name: stepLabel(chosen().steps[at()]), y }]) : "";
      },
      table: () => ({
        columns: ["series", "step", "layer", "layer_name", "population", state.measure, `${state.measure}_se`],
        rows: chosen().steps.flatMap((step, place) => {
          const [y, se] = [row(state.measure, place), row(`${state.measure}_se`, place)];
          return y ? chosen().layers.map((layer, i) => [chosen().name, step, layer.layer, layer.name, population, y[i], se ? se[i] : NaN]) : [];
        }),
      }),
    });
    const SCOPES = [["blocks", "mean over blocks"], ["with-embeddings", "blocks and embeddings"], [BATCHES, "training batches, mean over blocks"]];
    const byStep = theodolite.figure({
      shows: [], title: "Mean over layers", file: "steps-mean", height: 400,
      describe: () => theodolite.describeRanges(curves()),
      table: () => ({
        columns: ["series", "scope", "layers", "population", "step", state.measure, `${state.measure}_se`],
        rows: all.flatMap((one) => SCOPES.flatMap(([scope]) => {
          const found = means(one, scope);
          return found ? found.steps.map((step, i) => [one.name, scope, found.over, population, step, found.mean[i], found.se ? found.se[i] : NaN]) : [];
        })),
      }),
    });
    const drift = theodolite.figure({
      shows: [], title: "Drift of states, queries and keys", file: "steps-drift", height: 340,
      describe: () => theodolite.describeRanges(attentionLines(DRIFT[which.box.value][1])),
      table: () => attentionTable(),
    });
    const sharpness = theodolite.figure({
      shows: [], title: "Sharpness of attention", caption: "Means over heads, rows and blocks.", file: "steps-sharpness", height: 340,
      describe: () => theodolite.describeRanges(attentionLines(SHARPNESS)),
      table: () => attentionTable(),
    });
    const DRIFT = {
      cosine: ["Mean cosine", [["state_cosine", "states"], ["query_cosine", "queries"], ["key_cosine", "keys"]]],
      mean_norm: ["Norm of the mean", [["state_mean_norm", "states"], ["query_mean_norm", "queries"], ["key_mean_norm", "keys"]]],
      norm: ["Mean norm", [["state_norm", "states"], ["query_norm", "queries"], ["key_norm", "keys"]]],
    };
    const SHARPNESS = [["attention_max", "largest weight"], ["attention_entropy_share", "entropy / log length"]];
    const which = theodolite.select("Drift measure", Object.entries(DRIFT).map(([key, [words]]) => [key, words]), "cosine", () => update(null));
    theodolite.storeControl("steps.drift", which.box);
    const attentionNote = el("p", { class: "quiet" });
    const attention = el("div", {}, el("h3", {}, "Attention"), attentionNote, el("div", { class: "controls" }, which.el), el("div", { class: "pair" }, drift.el, sharpness.el));
    const LOSSES = (name) => /loss/i.test(name);
    const loss = theodolite.figure({
      shows: [], title: "Loss", file: "steps-loss", height: 300,
      describe: () => theodolite.describeRanges(trainingLines(LOSSES)),
      table: () => trainingTable(),
    });
    const others = theodolite.figure({
      shows: [], title: "Learning rate and others", file: "steps-learning-rate", height: 300,
      describe: () => theodolite.describeRanges(trainingLines((name) => !LOSSES(name))),
      table: () => trainingTable(),
    });
    const training = el("div", {}, el("h3", {}, "Training"), el("div", { class: "pair" }, loss.el, others.el));
    mount.append(
      el("div", { class: "controls" }, all.length > 1 ? series.el : null, measure.el, positions.el, axis.el),
      meaning,
      el("div", { class: "controls playing" }, play, slider.el),
      el("div", { class: "pair" }, byLayer.el, byStep.el),
      training,
      attention,
    );
    [byLayer, byStep, drift, sharpness].forEach((figure) =>
      figure.plot.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!move) return;
        event.preventDefault();
        theodolite.choose({ step: Math.min(Math.max(at() + move, 0), chosen().steps.length - 1) });
      }),
    );

    const positioned = () => stepAxis(all.flatMap((one) => one.steps), axis.box.value);
    const mark = () => {
      const x = positioned().place(chosen().steps[at()]);
      return [{ type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", layer: "below", line: { color: theodolite.colour("quiet"), width: 1.5, dash: "dot" } }];
    };
    const line = (name, steps, values, style, thin, column) => ({
      type: "scatter", mode: "lines+markers", cliponaxis: false, name: theodolite.escapeText(name), x: steps.map(positioned().place), y: values.mean, error_y: theodolite.errorBars(column, values.mean, values.se), customdata: shown(values.mean),
      line: { color: style.colour, dash: style.dash, width: thin ? 1.2 : 2 },
      marker: { color: style.colour, symbol: style.sign, size: thin ? 5 : 7, line: { width: 1.4, color: style.colour } },
      text: steps.map(stepLabel), hovertemplate: `%{text}: %{customdata}<extra>${theodolite.escapeText(name)}</extra>`,
    });
    const curves = () =>
      all.flatMap((one, place) =>
        SCOPES.flatMap(([scope, words], i) => {
          const values = means(one, scope);
          if (!values) return [];
          const style = all.length > 1 ? { ...theodolite.lineStyle(place), dash: ["solid", "dot", "dash"][i] } : theodolite.lineStyle(i);
          return [line(all.length > 1 ? `${one.name}, ${words}` : words, values.steps, values, style, i > 0, state.measure)];
        }),
      );
    // Attention has its own populations; use the chosen one if it is among them.
    const attentionData = () => {
      const known = chosen().attention;
      const name = known[population] ? population : Object.keys(known)[0];
      return name && { name, ...known[name] };
    };
    const attentionLines = (columns) => {
      const found = attentionData();
      return columns.flatMap(([column, words], i) => {
        const values = found && found.measures[column];
        if (!values) return [];
        return [line(words, found.steps, { mean: theodolite.column(values.mean), se: theodolite.column(values.se) }, theodolite.lineStyle(i), false, column)];
      });
    };
    const attentionTable = () => {
      const found = attentionData();
      const rows = Object.entries(found.measures).flatMap(([name, values]) => {
        const [mean, se] = [theodolite.column(values.mean), theodolite.column(values.se)];
        return found.steps.map((step, i) => [chosen().name, found.name, name, step, mean[i], se ? se[i] : NaN]);
      });
      return { columns: ["series", "population", "measure", "step", "mean", "se"], rows };
    };

    // What the training itself logged, which has more steps than were measured.
    const trainingLines = (wanted) => {
      const { steps, measures } = chosen().training;
      const names = Object.keys(measures || {}).filter(wanted);
      return names.map((name, i) => {
        const style = theodolite.lineStyle(i);
        const y = theodolite.column(measures[name]);
        return {
          type: "scatter", mode: "lines", connectgaps: true, name: theodolite.escapeText(name), x: steps.map(positioned().place), y, customdata: shown(y),
          line: { color: style.colour, dash: style.dash, width: 1.6 }, text: steps.map(stepLabel), hovertemplate: `%{text}: %{customdata}<extra>${theodolite.escapeText(name)}</extra>`,
        };
      });
    };
    const trainingTable = () => {
      const { steps, measures } = chosen().training;
      const columns = Object.entries(measures).map(([name, packed]) => [name, theodolite.column(packed)]);
      return { columns: ["series", "step", ...columns.map(([name]) => name)], rows: steps.map((step, i) => [chosen().name, step, ...columns.map(([, values]) => values[i])]) };
    };
    const drawTraining = () => {
      training.hidden = !(chosen().training.steps || []).length;
      if (training.hidden) return;
      [[loss, LOSSES, "loss"], [others, (name) => !LOSSES(name), "value"]].forEach(([figure, wanted, label]) => {
        const traces = trainingLines(wanted);
        if (!traces.length) figure.showMessage("The series does not have it.");
        else figure.draw(traces, { showlegend: true, xaxis: positioned().axis, yaxis: { title: { text: label, standoff: 8 } }, shapes: mark() });
      });
    };

    const fill = () => {
      const { populations, profiles, steps } = chosen();
      if (!populations.includes(population)) population = populations[0];
      const present = new Set(populations.flatMap((name) => Object.keys(profiles[name].columns)));
      const options = theodolite.data.measures
        .map(({ group, columns }) => ({ group, options: columns.filter(([name]) => present.has(name)) }))
        .filter((entry) => entry.options.length);
      measure.box.replaceChildren(...theodolite.select("", options, state.measure, () => {}).box.children);
      positions.box.replaceChildren(...populations.map((name) => el("option", { value: name }, name)));
      positions.set(population);
      series.set(Math.min(state.series, all.length - 1));
      slider.set(at(), steps.length - 1);
    };

    // The chosen step, drawn over all others.
    const front = () => {
      const y = row(state.measure, at());
      return { y, customdata: y && shown(y), error_y: theodolite.errorBars(state.measure, y, row(`${state.measure}_se`, at())), name: stepLabel(chosen().steps[at()]) };
    };
    const drawLayers = (entry) => {
      const { layers, steps } = chosen();
      const x = layers.map((_, i) => i);
      const share = (i) => i / Math.max(steps.length - 1, 1);
      const behind = steps
        .map((step, i) => ({
          type: "scatter", mode: "lines", x, y: row(state.measure, i), line: { color: ramp(share(i)), width: 1.4 }, opacity: 0.55, showlegend: false,
          text: layers.map((layer) => theodolite.escapeText(layer.name)), hovertemplate: `%{text}: %{customdata}<extra>${stepLabel(step)}</extra>`,
        }))
        .filter((trace) => trace.y)
        .map((trace) => ({ ...trace, customdata: shown(trace.y) }));
      if (!behind.length || !behind.some((trace) => trace.y.some(Number.isFinite))) {
        latest = [];
        byLayer.showMessage(`${entry.label} is undefined. ${(chosen().profiles[population].reasons || {})[state.measure] || "The series does not have it."}`);
        return;
      }
      const named = steps.map((_, i) => i).filter((i) => i % Math.ceil(steps.length / 8) === 0 || i === steps.length - 1);
      const key = {
        type: "scatter", mode: "markers", x: [null], y: [null], hoverinfo: "skip", showlegend: false,
        marker: {
          color: [0], cmin: 0, cmax: Math.max(steps.length - 1, 1), showscale: true, colorscale: [0, 0.25, 0.5, 0.75, 1].map((part) => [part, ramp(part)]),
          colorbar: { thickness: 9, outlinewidth: 0, tickvals: named, ticktext: named.map((i) => theodolite.formatCount(steps[i])), title: { text: "step" }, xpad: 4 },
        },
      };
      const chosenOne = {
        type: "scatter", mode: "lines+markers", cliponaxis: false, x, ...front(), line: { color: theodolite.colour("ink"), width: 2.6 },
        marker: { color: theodolite.colour("ink"), size: 7 }, text: layers.map((layer) => theodolite.escapeText(layer.name)), hovertemplate: "%{text}: %{customdata}<extra></extra>", showlegend: true,
      };
      latest = [...behind, key, chosenOne];
      const errors = steps.map((_, i) => row(`${state.measure}_se`, i));
      byLayer.draw(latest, {
        showlegend: true, xaxis: theodolite.layerAxis(layers, byLayer.plot.clientWidth, 130),
        yaxis: { ...valueAxis(behind, errors), title: { text: entry.label, standoff: 8 } },
      });
    };
    // Logarithmic for a wide range, unless an error bar would reach 0.
    const valueAxis = (traces, errors) => {
      const finite = (arrays) => arrays.flatMap((array) => Array.from(array)).filter(Number.isFinite);
      const values = finite(traces.map((trace) => trace.y));
      const below = finite(traces.map((trace, i) => (errors[i] ? trace.y.map((value, at) => value - errors[i][at]) : [])));
      const [low, high] = [[...values, ...below].reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
      return theodolite.valueAxis(state.measure, values, low > 0 && high > 50 * low);
    };
    const drawSteps = (entry) => {
      const traces = curves();
      if (!traces.length) {
        byStep.showMessage(`No layer has ${entry.label} at every step, so there is no mean over the same layers.`);
        return;
      }
      const errors = traces.map((trace) => trace.error_y && trace.error_y.array);
      byStep.draw(traces, { showlegend: true, xaxis: positioned().axis, yaxis: { ...valueAxis(traces, errors), title: { text: entry.label, standoff: 8 } }, shapes: mark() });
    };
    const drawAttention = () => {
      const found = attentionData();
      attention.hidden = !found;
      if (!found) return;
      attentionNote.textContent = `${chosen().name}, ${found.name}, on ${theodolite.pluralize(found.documents, "document")}; means over blocks. Bars show one standard error.`;
      const [words, columns] = DRIFT[which.box.value];
      drift.title("Drift of states, queries and keys", `${words}. States are the inputs of a block.`);
      [[drift, columns, words], [sharpness, SHARPNESS, "share"]].forEach(([figure, wanted, label]) => {
        const traces = attentionLines(wanted);
        if (!traces.length) figure.showMessage("No block has it at every step.");
        else figure.draw(traces, { showlegend: true, xaxis: positioned().axis, yaxis: { title: { text: label, standoff: 8 }, rangemode: "tozero" }, shapes: mark() });
      });
    };
    // The slider changes one line and the marks only.
    const slide = () => {
      slider.set(at());
      const { y, customdata, error_y: errors, name } = front();
      if (latest.length && y) {
        Plotly.restyle(byLayer.plot, { y: [y], customdata: [customdata], name: [name], ...(errors ? { "error_y.array": [errors.array], "error_y.arrayminus": [errors.arrayminus] } : {}) }, [latest.length - 1]);
        byLayer.plot.setAttribute("aria-label", `Layer by layer. ${theodolite.describeRanges([{ name, y }])}`);
      }
      [byStep, loss, others, drift, sharpness].forEach((figure) => figure.plot.data && !figure.plot.hidden && Plotly.relayout(figure.plot, { shapes: mark() }));
    };
    const update = (changed) => {
      if (changed && changed.size === 1 && changed.has("step")) {
        slide();
        return;
      }
      if (changed && ![...changed].some((key) => ["step", "series", "measure", "population"].includes(key))) return;
      if (changed && changed.has("population") && chosen().populations.includes(state.population)) {
        population = state.population;
        storePopulation(undefined);
      }
      fill();
      const entry = theodolite.measure(state.measure);
      measure.set(state.measure);
      meaning.replaceChildren(entry.meaning, ...(entry.href ? [" ", el("a", { href: entry.href }, "Definition")] : []));
      byLayer.title(entry.label, `${chosen().name}: the chosen step is the thick line, all steps are coloured by step.`);
      byStep.title(`${entry.label}, mean over layers`, "Over the layers that have it at every step, without the final norm.");
      drawLayers(entry);
      drawSteps(entry);
      drawTraining();
      drawAttention();
    };
    return { update };
  });
})();

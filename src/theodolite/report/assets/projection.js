// The sample in a plane at each layer, by PCA or UMAP; the same vectors at every layer.
(() => {
  const { el, formatNumber, formatCount } = theodolite;
  // Parts of viridis, which is ordered also for colour-blind readers, without the end that is close to the background.
  const ramps = {
    light: ["#440154", "#3b528b", "#21918c", "#5ec962", "#a8c81f"],
    dark: ["#5f5fb0", "#3b8fb8", "#2fb39a", "#7ad151", "#fde725"],
  };
  const ramp = () => {
    const card = theodolite.colour("card");
    const colours = ramps[parseInt(card.slice(1, 3), 16) < 128 ? "dark" : "light"];
    return colours.map((colour, at) => [at / (colours.length - 1), colour]);
  };

  const colours = [["norm", "norm"], ["n", "frequency of the unit"], ["label", "unit"], ["document", "document"], ["position", "position"], ["special", "special or not"]];
  const MOST_LABELS = 12; // units that colours can distinguish

  // The population that is drawn: the chosen one, or the first that has a projection.
  const drawn = () => {
    const found = theodolite.survey().projections;
    return found[theodolite.state.population] ? theodolite.state.population : Object.keys(found)[0];
  };
  let method = "pca";
  const umapLayers = () => (theodolite.survey().projections[drawn()] || []).flatMap((one, at) => (one && one.umap_x ? [at] : []));
  // A column that is absent at a layer is the same as at the layer before.
  const columnOf = (layers, layer, name) => {
    for (let at = layer; at >= 0; at -= 1) if (layers[at] && layers[at][name]) return theodolite.column(layers[at][name]);
    return null;
  };
  const points = () => {
    const layers = theodolite.survey().projections[drawn()];
    const layer = theodolite.state.layer;
    if (!layers || !layers[layer]) return null;
    const { x, y, norm, share, near, umap_x: across, umap_y: up } = layers[layer];
    const umap = method === "umap" && Boolean(across);
    return {
      x: theodolite.column(umap ? across : x), y: theodolite.column(umap ? up : y), norm: theodolite.column(norm), share, umap, near: theodolite.column(near),
      row: columnOf(layers, layer, "row"), unit: columnOf(layers, layer, "unit"),
    };
  };
  const seen = () => {
    const found = theodolite.tokenColumns(drawn());
    return found ? theodolite.column(found.n) : null;
  };
  // The norm of each vector, or, if unknown, the root of the mean squared norm of its unit.
  const norms = (found) => {
    if (found.norm) return { values: found.norm, word: "norm" };
    const matrix = theodolite.tokenColumns(drawn());
    if (!matrix) return null;
    const units = theodolite.survey().units.text.length;
    const m = theodolite.column(matrix.m);
    const v = theodolite.column(matrix.v);
    const from = theodolite.state.layer * units;
    return { values: Float32Array.from(found.unit, (unit) => (unit < 0 ? NaN : Math.sqrt(m[from + unit] + v[from + unit]))), word: theodolite.reword("norm of its unit (root of Q)") };
  };
  const special = (unit) => unit >= 0 && theodolite.column(theodolite.survey().units.special)[unit] === 1;
  const word = (unit) => (unit >= 0 ? theodolite.survey().units.text[unit] : theodolite.reword(unit === -2 ? "a token that this page does not hold" : "no unit"));
  // The word of a vector: its token, or the text at its position.
  const wordAt = (found, at) => (found.unit[at] === -2 && theodolite.pointContext(found.row[at])?.text) || word(found.unit[at]);

  // A colour scale, logarithmic for a wide range; `whole` is for counts. It excludes the outermost 0.5%, because a single
  // vector would use most of the colours.
  const colourScale = (values, word, whole) => {
    const finite = Float64Array.from(values).filter((value) => Number.isFinite(value) && value > 0).sort();
    if (!finite.length) return null;
    const cut = Math.floor(0.005 * finite.length);
    const [least, most] = [finite[cut], finite[finite.length - 1 - cut]];
    const log = whole || most > 4 * least;
    const change = (value) => (log ? Math.log10(value) : value);
    const [low, high] = [change(least), change(most)];
    const ticks = (high > low ? [0, 0.25, 0.5, 0.75, 1] : [0]).map((part) => low + part * (high - low));
    const signs = [finite[0] < least ? "≤ " : "", "", "", "", finite[finite.length - 1] > most ? "≥ " : ""];
    return {
      values: Float32Array.from(values, (value) => (log && !(value > 0) ? NaN : change(value))),
      marker: {
        colorscale: ramp(), cmin: low, cmax: high > low ? high : low + 1, showscale: true,
        // The legend is to the right of it, except on phones.
        colorbar: {
          orientation: "h", yref: "container", y: 1, yanchor: "top", x: 0, xpad: 0, ypad: 4, xanchor: "left", len: matchMedia("(max-width:560px)").matches ? 0.6 : 0.4, thickness: 8, outlinewidth: 0, title: { text: word, side: "top", font: { size: 12 } },
          tickvals: ticks, ticktext: ticks.map((tick, at) => signs[at] + formatNumber(whole ? Math.round(10 ** tick) : log ? 10 ** tick : tick, 3)),
        },
      },
    };
  };

  theodolite.section("projection", (mount) => {
    const by = theodolite.select("Colour", colours, "norm", () => update(null));
    theodolite.storeControl("projection.colour", by.box);
    const kind = theodolite.select("Projection", [["pca", "PCA"], ["umap", "UMAP"]], "pca", (value) => ((method = value), update(null)));
    theodolite.storeControl("projection.method", kind.box);
    let picked = -1; // the row of the vector that was clicked
    const summary = el("p", { class: "meaning", "aria-live": "polite" });
    const aside = el("div", { class: "point occurrences", hidden: true, "aria-live": "polite" });
    const figure = theodolite.figure({
      title: "Projection of the sample", shows: ["survey", "population", "layer"],
      file: "projection",
      height: 560,
      describe: () => `${caption()} ${describeToken()} ${keys()}`,
      table: () => {
        const found = points();
        if (!found) return { columns: [], rows: [] };
        const { layer, name } = theodolite.survey().layers[theodolite.state.layer];
        const n = seen();
        const rows = Array.from(found.x, (x, at) => {
          const unit = found.unit[at];
          return [layer, name, drawn(), found.row[at], unit < 0 ? "" : theodolite.tokens(drawn())?.key(unit) ?? word(unit), unit < 0 ? "" : word(unit), unit < 0 ? "" : special(unit) ? "yes" : "no", n && unit >= 0 ? n[unit] : NaN, found.norm ? found.norm[at] : NaN, x, found.y[at]];
        });
        return { columns: ["layer", "layer_name", "population", "row", "unit", "token", "special", "n", "norm", "x", "y"], rows };
      },
    });
    const step = (by) => () => {
      const found = points();
      if (!found) return;
      const here = [...new Set(found.unit)].filter((unit) => unit >= 0).sort((a, b) => a - b);
      if (!here.length) return;
      const at = here.indexOf(theodolite.state.token);
      theodolite.choose({ token: here[at < 0 ? 0 : Math.min(Math.max(at + by, 0), here.length - 1)] });
    };
    theodolite.layerKeys(figure.plot, { ArrowDown: step(1), ArrowUp: step(-1), Escape: () => theodolite.choose({ token: -1 }) });
    mount.append(el("div", { class: "controls" }, kind.el, by.el), summary, figure.el);
    figure.el.append(aside);

    const keys = () => theodolite.reword(`${theodolite.hasOneLayer() ? "Up and down change" : "Left and right change the layer, up and down"} the token; Escape clears it.`);
    const caption = () => {
      const found = points();
      if (!found) return "";
      if (found.umap) return `${theodolite.atLayer("", ": ")}${theodolite.pluralize(found.x.length, "vector")} of the sample (${drawn()}), embedded by UMAP: neighbours stay close, while distances between clusters and their sizes mean little.`;
      const parts = [`${theodolite.atLayer("", ": ")}${theodolite.pluralize(found.x.length, "vector")} of the sample (${drawn()}), projected onto the plane with the most variance.`];
      const beyond = found.share === null ? "All vectors are equal, so there is no plane." : `The plane has ${formatNumber(100 * found.share, 3)}% of their variance; other distances are not visible.`;
      parts.push(beyond);
      if (!theodolite.hasOneLayer()) parts.push("Each plane is rotated to match the layer before and has its own scale.");
      return parts.join(" ");
    };
    const cautions = () => {
      if (!drawn()) return "";
      const parts = [];
      const population = theodolite.state.population;
      const value = (column) => (theodolite.profile(column, drawn()) || [])[theodolite.state.layer];
      const whole = (theodolite.profile("n", "all") || [])[theodolite.state.layer];
      const omitted = whole - value("n");
      if (["without-sinks", "without-massive"].includes(drawn()) && omitted > 0) {
        const sinks = drawn() === "without-sinks" ? "sinks (positions that are massive at some layer)" : "massive positions";
        parts.push(`Without ${formatCount(omitted)} ${sinks}, which would be outliers beside one dot; choose the population all to see them.`);
      }
      if (method === "umap" && !points()?.umap) parts.push(`UMAP was computed only at ${umapLayers().map((at) => theodolite.survey().layers[at].name).join(", ")}; this is PCA.`);
      if (drawn() !== population && (theodolite.profile("n") || [])[theodolite.state.layer] !== value("n")) parts.push(`This is the population ${drawn()}: there is no projection for ${population}.`);
      if (value("massive") > 0) {
        const shorter = ["without-sinks", "without-massive"].find((name) => theodolite.survey().projections[name]);
        const other = shorter ? theodolite.reword(` Choose the population ${shorter} to exclude them.`) : "";
        const many = value("massive") === 1 ? "position is massive: if it is in the sample, it dominates the plane." : "positions are massive: those in the sample dominate the plane.";
        parts.push(theodolite.reword(`${formatCount(value("massive"))} ${many}`) + other);
      }
      if (value("sample_duplicates") > 0) parts.push(`${theodolite.pluralize(value("sample_duplicates"), "vector")} of the sample ${value("sample_duplicates") === 1 ? "is a duplicate" : "are duplicates"}.`);
      return parts.join(" ");
    };
    const describeToken = () => {
      const token = theodolite.state.token;
      if (token < 0) return "";
      const found = points();
      const times = found ? found.unit.reduce((sum, unit) => sum + (unit === token), 0) : 0;
      return times ? `Chosen: “${word(token)}”, ${formatCount(times)} of the ${theodolite.pluralize(found.x.length, "vector")}.` : `Chosen: “${word(token)}”, not in the sample.`;
    };

    // The available colours: a sample without units has no frequency, and many have no special units.
    const fill = () => {
      const placed = theodolite.survey().points?.row;
      const labels = new Set(points()?.unit || []);
      const few = labels.size > 1 && labels.size <= MOST_LABELS;
      const has = { norm: true, n: seen(), label: few, document: placed, position: placed, special: theodolite.column(theodolite.survey().units.special).includes(1) };
      kind.el.hidden = !umapLayers().length;
      method = kind.el.hidden ? "pca" : kind.box.value;
      const options = colours.filter(([value]) => has[value]).map(([value, text]) => [value, theodolite.reword(text)]);
      const before = by.box.value;
      by.box.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
      by.set(options.some(([value]) => value === before) ? before : "norm");
    };
    // Points in groups: with and without a value for the colour, or special and not.
    const groups = (found) => {
      const all = Array.from(found.x, (_, at) => at);
      const plain = { marker: { color: theodolite.colour("c0"), symbol: "circle" } };
      if (by.box.value === "special") {
        return [
          { name: "not special", places: all.filter((at) => !special(found.unit[at])), ...plain },
          { name: "special", places: all.filter((at) => special(found.unit[at])), marker: { color: theodolite.colour("c1"), symbol: "diamond", size: 9 } },
        ];
      }
      if (by.box.value === "label") {
        return [...new Set(found.unit)].sort((a, b) => a - b).map((unit, at) => {
          const { colour, sign } = theodolite.lineStyle(at);
          return { name: theodolite.escapeText(word(unit)), places: all.filter((place) => found.unit[place] === unit), marker: { color: colour, symbol: at < 7 ? "circle" : sign, size: 6 } };
        });
      }
      const n = seen();
      const where = (key) => Array.from(found.row, (row) => (theodolite.pointContext(row)?.[key] ?? NaN) + 1);
      const bySample = { document: "number of the document", position: "position in the window" }[by.box.value];
      const source = bySample ? { values: where(by.box.value), word: bySample } : by.box.value === "n" ? n && { values: Array.from(found.unit, (unit) => (unit < 0 ? NaN : n[unit])), word: theodolite.reword("occurrences of the unit") } : norms(found);
      const scale = source && colourScale(source.values, source.word, by.box.value === "n" || Boolean(bySample));
      if (!scale) return [{ name: "", places: all, ...plain }];
      const known = all.filter((at) => Number.isFinite(scale.values[at]));
      const unknown = all.filter((at) => !Number.isFinite(scale.values[at]));
      return [
        { name: "", places: known, marker: { ...scale.marker, color: known.map((at) => scale.values[at]) } },
        { name: "unknown", places: unknown, marker: { color: theodolite.colour("quiet"), symbol: "x-thin-open" } },
      ];
    };
    const trace = (found, { name, places, marker }, more) => ({
      type: theodolite.hasWebgl() ? "scattergl" : "scatter", mode: "markers", name, x: places.map((at) => found.x[at]), y: places.map((at) => found.y[at]), customdata: places, hoverinfo: "none",
      showlegend: Boolean(name), marker: { size: 6, line: { width: 0 }, ...marker }, ...more,
    });
    let listening = false;
    const update = (changed) => {
      if (changed && !["survey", "population", "layer", "token"].some((key) => changed.has(key))) return;
      if (!changed || changed.has("survey") || changed.has("population")) fill();
      const found = points();
      theodolite.tooltip.hide();
      figure.title("Projection of the sample", caption());
      summary.textContent = [cautions(), describeToken()].filter(Boolean).join(" ");
      if (!found) {
        const here = drawn() ? `There is no projection at ${theodolite.layerName()}.` : "This survey has no projection, because it has no sample of vectors.";
        figure.showMessage(here);
        return;
      }
      const token = theodolite.state.token;
      const ringed = token < 0 ? [] : Array.from(found.unit.keys()).filter((at) => found.unit[at] === token);
      const traces = groups(found)
        .filter(({ places }) => places.length)
        .map((group) => trace(found, group, { opacity: ringed.length ? 0.3 : 0.85 }));
      const at = picked >= 0 ? found.row.indexOf(picked) : -1;
      const near = showPoint(found, at);
      if (at >= 0) {
        const mark = { color: theodolite.colour("c1"), symbol: "circle-open", size: 15, line: { width: 3, color: theodolite.colour("c1") } };
        traces.push(trace(found, { name: "clicked", places: [at], marker: mark }));
        if (near.length) traces.push(trace(found, { name: "its nearest", places: near, marker: { ...mark, size: 11, line: { width: 2, color: theodolite.colour("c1") } } }));
      }
      if (ringed.length) {
        const ring = { color: theodolite.colour("ink"), size: 11, symbol: "circle-open", line: { width: 2.2, color: theodolite.colour("ink") } };
        traces.push(trace(found, { name: theodolite.reword("chosen token"), places: ringed, marker: ring }));
      }
      figure.draw(traces, {
        showlegend: traces.some((one) => one.showlegend), dragmode: matchMedia("(pointer: coarse)").matches ? false : "pan", margin: { l: 48, r: 12, t: 60, b: 28 }, uirevision: `${theodolite.state.survey} ${drawn()} ${theodolite.state.layer}`,
        legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 1, xanchor: "right" },
        xaxis: { zeroline: false }, yaxis: { scaleanchor: "x", scaleratio: 1, zeroline: false },
      });
      if (listening) return;
      listening = true;
      figure.plot.on("plotly_hover", ({ points: [point], event }) => note(point.customdata, event));
      figure.plot.on("plotly_unhover", () => theodolite.tooltip.hide());
      figure.plot.on("plotly_click", ({ points: [point] }) => {
        const found = points();
        const unit = found.unit[point.customdata];
        const again = found.row[point.customdata] === picked;
        picked = again ? -1 : found.row[point.customdata];
        const token = again || unit < 0 ? -1 : unit;
        if (token === theodolite.state.token) update(new Set(["token"]));
        else theodolite.choose({ token });
      });
    };
    // The clicked vector with its text, and the nearest ones; returns the places of these.
    const showPoint = (found, at) => {
      aside.hidden = at < 0;
      if (at < 0) return [];
      const line = (place) => {
        const context = theodolite.pointContext(found.row[place]);
        return context && context.text !== undefined ? theodolite.contextLine(context) : el("bdi", {}, found.unit[place] === -1 ? `row ${found.row[place]} of the sample` : wordAt(found, place));
      };
      const count = found.near ? found.near.length / found.x.length : 0;
      const near = count ? [...found.near.subarray(at * count, (at + 1) * count)].filter((place) => place < found.x.length) : [];
      const pick = (place) => el("button", { type: "button", class: "small", onclick: () => ((picked = found.row[place]), update(new Set(["token"]))) }, "Show");
      aside.replaceChildren(
        el("h4", {}, "The clicked vector"), el("p", {}, line(at)),
        ...(near.length ? [el("h4", {}, `Its nearest in the sample${theodolite.atLayer(" at ", "")}, by cosine`), el("ol", { class: "contexts" }, ...near.map((place) => el("li", {}, line(place), " ", pick(place))))] : []),
      );
      return near;
    };
    const note = (at, event) => {
      const found = points();
      const unit = found.unit[at];
      const n = seen();
      const norm = norms(found);
      theodolite.tooltip.show(event.clientX, event.clientY, [
        wordAt(found, at),
        ...(special(unit) ? ["special"] : []),
        ...(n && unit >= 0 ? [theodolite.pluralize(n[unit], "occurrence")] : []),
        ...(norm && Number.isFinite(norm.values[at]) ? [`${norm.word} ${formatNumber(norm.values[at])}`] : []),
        ...(theodolite.pointContext(found.row[at])?.text !== undefined ? [theodolite.contextLine(theodolite.pointContext(found.row[at]))] : []),
        `at ${formatNumber(found.x[at], 3)}, ${formatNumber(found.y[at], 3)}`,
      ]);
    };
    return { update };
  });
})();

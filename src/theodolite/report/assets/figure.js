// A chart with its caption, its description for screen readers, and buttons to save the picture and the data.
(() => {
  const { el, chosenValues } = theodolite;

  const TITLE = 30; // pixels for the title of a saved chart

  // options: title, caption, file (a name without ending), height, table() -> {columns, rows}, describe() -> text,
  // extra() -> {traces, annotations} that only a saved picture has, shows: the choices of the reader that the chart depends on (survey, population, layer), stated in saved files.
  // Returns el, draw(traces, layout), plot (the element that Plotly draws into), and showMessage(text) if there is nothing
  // to draw.
  theodolite.figure = (options) => {
    const plot = el("div", { class: "plot", role: "img", tabindex: 0, style: `height:${options.height || 320}px` });
    const why = el("p", { class: "none", hidden: true });
    const shows = options.shows || ["survey", "population"];
    const button = (words, label, onclick) => el("button", { type: "button", class: "small", "aria-label": `${label}: ${options.title}`, onclick }, words);
    // A saved chart has a title that states what it shows.
    const picture = (format) => {
      const words = [caption.firstChild.textContent, ...chosenValues(shows).map(([, value]) => value)].map(theodolite.escapeText).join(" · ");
      // Use the margins as drawn, which include the legend.
      const margin = { ...plot.layout.margin, t: plot._fullLayout._size.t + TITLE, autoexpand: false, l: plot._fullLayout._size.l, r: plot._fullLayout._size.r, b: plot._fullLayout._size.b };
      const { traces, annotations } = options.extra ? options.extra() : { traces: [], annotations: [] };
      const layout = { ...plot.layout, margin, annotations: [...(plot.layout.annotations || []), ...annotations], title: { text: words, x: 0.02, xanchor: "left", y: 1, yanchor: "top", yref: "container", pad: { t: 12 }, font: { size: 13 } } };
      const size = { width: plot.clientWidth, height: plot.clientHeight + TITLE };
      return Plotly.downloadImage({ data: [...plot.data, ...traces], layout: { ...layout, ...size, autosize: false } }, { format, filename: theodolite.fileName(options.file, shows), ...size, scale: format === "png" ? 2 : 1 });
    };
    const caption = el("figcaption", {}, el("b", {}, options.title), ` ${options.caption || ""}`);
    const exports = el(
      "div",
      { class: "exports", role: "group", "aria-label": `Save ${options.title}` },
      button("png", "Save as png", () => picture("png")),
      button("svg", "Save as svg", () => picture("svg")),
      button("csv", "Save the data as csv", () => theodolite.saveTable(options.file, shows, options.table())),
    );
    const figure = el(
      "figure",
      { class: "chart-frame" },
      el(
        "div",
        { class: "figure-head" },
        caption,
        exports,
      ),
      plot,
      why,
    );
    // Redraw a chart whose width has changed because another chart beside it appeared or disappeared.
    new ResizeObserver(() => {
      const drawn = plot.layout && plot.clientWidth && !matchMedia("print").matches;
      if (drawn && Math.abs(plot._fullLayout.width - plot.clientWidth) > 1) Plotly.relayout(plot, { ...theodolite.ticksAtWidth(plot, plot.clientWidth), autosize: true });
    }).observe(plot);
    const config = { responsive: true, displayModeBar: false, displaylogo: false, doubleClick: "reset", ...options.config };
    // Zooming on a logarithmic axis needs other ticks.
    let listening = false;
    let ownTicks = [];
    const renewTicks = (changed) => {
      const zoomed = ownTicks.filter((name) => Object.keys(changed).some((key) => key.startsWith(`${name}.range`) || key === `${name}.autorange`));
      const ticks = zoomed.flatMap((name) => Object.entries(theodolite.logTicks(...plot._fullLayout[name].range, name === "xaxis" ? plot.clientWidth : undefined)).map(([key, value]) => [`${name}.${key}`, value]));
      if (ticks.length) Plotly.relayout(plot, Object.fromEntries(ticks));
    };
    const draw = (traces, layout) => {
      why.hidden = true;
      plot.hidden = exports.hidden = false;
      const words = options.describe ? options.describe() : "";
      plot.setAttribute("aria-label", `${options.title}. ${words}`);
      ownTicks = ["xaxis", "yaxis"].filter((name) => (layout[name] || {}).type === "log" && !layout[name].tickvals);
      const drawn = Plotly.react(plot, traces, theodolite.layout(layout, traces, plot.clientWidth), config);
      if (!listening) plot.on("plotly_relayout", renewTicks);
      listening = true;
      return drawn;
    };
    return {
      el: figure,
      plot,
      draw,
      showMessage: (text) => {
        why.textContent = text;
        why.hidden = false;
        plot.hidden = exports.hidden = true; // there is nothing to save
      },
      title: (title, words) => caption.replaceChildren(el("b", {}, title), ` ${words || ""}`),
    };
  };

  // "all: 0.06 to 0.99 at 7 points" for each line.
  theodolite.describeRanges = (traces) =>
    traces
      .filter((trace) => trace.name && trace.y)
      .map((trace) => {
        const seen = Array.from(trace.y).filter(Number.isFinite);
        if (!seen.length) return `${trace.name}: undefined`;
        const least = seen.reduce((a, b) => Math.min(a, b));
        const most = seen.reduce((a, b) => Math.max(a, b));
        return `${trace.name}: ${theodolite.formatNumber(least)} to ${theodolite.formatNumber(most)} at ${theodolite.pluralize(seen.length, "point")}`;
      })
      .join("; ");
})();

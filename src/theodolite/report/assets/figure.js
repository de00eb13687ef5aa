// A chart in its frame: caption, drawing, words for those who cannot see it, and its data to take away.
(() => {
  const { el } = theodolite;

  const save = (name, kind, text) => {
    const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  theodolite.save = save;
  const quoted = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "";
    return typeof value === "number" ? String(value) : `"${String(value).replaceAll('"', '""')}"`;
  };
  theodolite.csv = (columns, rows) =>
    [columns, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";

  // options: title, caption, file (a name without ending), height, table() -> {columns, rows}, describe() -> words.
  // Returns el, draw(traces, layout), plot (the element that Plotly draws into), and none(why) for nothing to draw.
  theodolite.figure = (options) => {
    const plot = el("div", { class: "plot", role: "img", tabindex: 0, style: `height:${options.height || 320}px` });
    const why = el("p", { class: "none", hidden: true });
    const button = (words, label, onclick) => el("button", { type: "button", class: "small", "aria-label": `${label}: ${options.title}`, onclick }, words);
    const picture = (format) =>
      Plotly.downloadImage(plot, { format, filename: options.file, width: plot.clientWidth, height: plot.clientHeight, scale: format === "png" ? 2 : 1 });
    const caption = el("figcaption", {}, el("b", {}, options.title), ` ${options.caption || ""}`);
    const exports = el(
      "div",
      { class: "exports", role: "group", "aria-label": `Save ${options.title}` },
      button("png", "Save as png", () => picture("png")),
      button("svg", "Save as svg", () => picture("svg")),
      button("csv", "Save the data as csv", () => {
        const { columns, rows } = options.table();
        save(`${options.file}.csv`, "text/csv;charset=utf-8", theodolite.csv(columns, rows));
      }),
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
    let latest = null;
    const config = { responsive: true, displayModeBar: false, displaylogo: false, doubleClick: "reset", ...options.config };
    const draw = (traces, layout) => {
      latest = [traces, layout];
      why.hidden = true;
      plot.hidden = exports.hidden = false;
      const words = options.describe ? options.describe() : "";
      plot.setAttribute("aria-label", `${options.title}. ${words}`);
      return Plotly.react(plot, traces, theodolite.layout(layout), config);
    };
    return {
      el: figure,
      plot,
      draw,
      none: (words) => {
        why.textContent = words;
        why.hidden = false;
        plot.hidden = exports.hidden = true; // there is nothing to take away
      },
      title: (title, words) => caption.replaceChildren(el("b", {}, title), ` ${words || ""}`),
      redraw: () => latest && !plot.hidden && draw(...latest),
    };
  };

  // "all: 0.06 to 0.99 at 7 layers" for each line that is drawn.
  theodolite.spans = (traces) =>
    traces
      .filter((trace) => trace.name && trace.y)
      .map((trace) => {
        const seen = Array.from(trace.y).filter(Number.isFinite);
        if (!seen.length) return `${trace.name}: undefined`;
        const least = seen.reduce((a, b) => Math.min(a, b));
        const most = seen.reduce((a, b) => Math.max(a, b));
        return `${trace.name}: ${theodolite.show(least)} to ${theodolite.show(most)} at ${seen.length} points`;
      })
      .join("; ");
})();

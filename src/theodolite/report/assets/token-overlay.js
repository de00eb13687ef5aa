// The matches of a search, drawn on a canvas over the map: drawing the map again at each key would take seconds.
(() => {
  const { el } = theodolite;
  const RADIUS = 5.5;

  // Over a chart of Plotly. show(points) draws rings at {x, y}, and veils the other points; null removes them.
  theodolite.pointOverlay = (plot) => {
    const canvas = el("canvas", { class: "overlay", "aria-hidden": "true" });
    let shown = null;

    const draw = () => {
      const layout = plot._fullLayout;
      canvas.hidden = !shown || !layout;
      if (canvas.hidden) return;
      if (canvas.parentElement !== plot) plot.append(canvas);
      const ratio = devicePixelRatio || 1;
      const { xaxis, yaxis } = layout;
      const [width, height] = [xaxis._length, yaxis._length];
      Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      Object.assign(canvas.style, { left: `${xaxis._offset}px`, top: `${yaxis._offset}px`, width: `${width}px`, height: `${height}px` });
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.globalAlpha = 0.62;
      pen.fillStyle = theodolite.colour("card");
      pen.fillRect(0, 0, width, height);
      pen.globalAlpha = 1;
      pen.strokeStyle = theodolite.colour("ink");
      pen.lineWidth = 1.8;
      const line = (axis, value) => axis.l2p(axis.type === "log" ? Math.log10(value) : value);
      for (let at = 0; at < shown.x.length; at += 1) {
        const [x, y] = [line(xaxis, shown.x[at]), line(yaxis, shown.y[at])];
        if (!(x >= 0 && x <= width && y >= 0 && y <= height)) continue;
        pen.beginPath();
        pen.arc(x, y, RADIUS, 0, 2 * Math.PI);
        pen.stroke();
      }
    };
    let listening = false;
    return {
      show: (points) => {
        shown = points;
        if (!listening && plot.on) {
          listening = true;
          ["plotly_afterplot", "plotly_relayout", "plotly_relayouting"].forEach((name) => plot.on(name, draw));
        }
        draw();
      },
    };
  };
})();

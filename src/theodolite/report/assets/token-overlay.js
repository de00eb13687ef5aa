// The matches of a search and the trajectory of the chosen token, drawn on a canvas over the map: drawing the map again at
// each key or choice would take seconds.
(() => {
  const { el } = theodolite;
  const RADIUS = 5.5;
  const VEIL = { found: 0.62, chosen: 0.35 }; // how far the other points are hidden

  // Over a chart of Plotly. show({ found, chosen }) draws rings at the points {x, y} in `found`, and the trajectory, the ring
  // and the labels of `chosen`; each may be null.
  theodolite.pointOverlay = (plot) => {
    const canvas = el("canvas", { class: "overlay", "aria-hidden": "true" });
    let shown = { found: null, chosen: null };

    const draw = () => {
      const layout = plot._fullLayout;
      const { found, chosen } = shown;
      canvas.hidden = !(found || chosen) || !layout;
      if (canvas.hidden) return;
      if (canvas.parentElement !== plot) plot.append(canvas);
      const ratio = devicePixelRatio || 1;
      const { xaxis, yaxis } = layout;
      const [width, height] = [xaxis._length, yaxis._length];
      Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      Object.assign(canvas.style, { left: `${xaxis._offset}px`, top: `${yaxis._offset}px`, width: `${width}px`, height: `${height}px` });
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.globalAlpha = found ? VEIL.found : VEIL.chosen;
      pen.fillStyle = theodolite.colour("card");
      pen.fillRect(0, 0, width, height);
      pen.globalAlpha = 1;
      const pixel = (axis, value) => axis.l2p(axis.type === "log" ? Math.log10(value) : value);
      const pixels = ({ x, y }) => Array.from(x, (value, at) => [pixel(xaxis, value), pixel(yaxis, y[at])]);
      const ring = ([x, y], radius) => {
        if (!(x >= 0 && x <= width && y >= 0 && y <= height)) return;
        pen.beginPath();
        pen.arc(x, y, radius, 0, 2 * Math.PI);
        pen.stroke();
      };
      if (found) {
        Object.assign(pen, { strokeStyle: theodolite.colour("ink"), lineWidth: 1.8 });
        pixels(found).forEach((point) => ring(point, RADIUS));
      }
      if (chosen) drawChosen(pen, chosen, pixels, ring);
    };

    const drawChosen = (pen, { trajectory, now, labels }, pixels, ring) => {
      const colour = theodolite.colour("c1");
      Object.assign(pen, { strokeStyle: colour, fillStyle: colour, lineWidth: 2, lineJoin: "round" });
      pen.beginPath();
      let known = false; // whether the layer before has a point
      pixels(trajectory).forEach(([x, y]) => {
        if (Number.isFinite(x) && Number.isFinite(y)) pen[known ? "lineTo" : "moveTo"](x, y);
        known = Number.isFinite(x) && Number.isFinite(y);
      });
      pen.stroke();
      pixels(trajectory).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y)).forEach(([x, y]) => {
        pen.beginPath();
        pen.arc(x, y, 2.5, 0, 2 * Math.PI);
        pen.fill();
      });
      pen.lineWidth = 3;
      pixels(now).forEach((point) => ring(point, 8));
      labels.forEach(({ x, y, text, side, dx, dy, bold }) => {
        const [[left, top]] = pixels({ x: [x], y: [y] });
        Object.assign(pen, { font: `${bold ? "600 13px" : "12px"} ${getComputedStyle(plot).fontFamily}`, textAlign: side, textBaseline: "middle" });
        const size = pen.measureText(text).width;
        const start = left + dx - { left: 0, center: size / 2, right: size }[side];
        pen.globalAlpha = 0.92;
        pen.fillStyle = theodolite.colour("card");
        pen.fillRect(start - 2, top + dy - 9, size + 4, 18);
        pen.globalAlpha = 1;
        pen.fillStyle = colour;
        pen.fillText(text, left + dx, top + dy);
      });
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

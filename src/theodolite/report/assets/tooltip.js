// A tooltip beside the pointer. Its lines are plain text, because tokens in a tooltip of Plotly would be read as markup.
(() => {
  const { el } = theodolite;
  let box = null;

  theodolite.tooltip = {
    // x and y in the window, as a pointer's event has them; the first line is the heading.
    show: (x, y, lines) => {
      if (!box) document.body.append((box = el("div", { class: "tip", "aria-hidden": "true" })));
      box.replaceChildren(...lines.map((line, at) => el("div", at ? {} : { style: "font-weight:600" }, line)));
      box.hidden = false;
      const { width, height } = box.getBoundingClientRect();
      const limit = document.documentElement.clientWidth;
      const left = x + 14 + width > limit ? x - 14 - width : x + 14;
      box.style.left = `${Math.max(4, Math.min(left, limit - width - 4))}px`;
      box.style.top = `${y + 14 + height > innerHeight ? Math.max(4, y - 14 - height) : y + 14}px`;
    },
    hide: () => {
      if (box) box.hidden = true;
    },
  };
  addEventListener("scroll", () => theodolite.tooltip.hide(), { passive: true });
})();

// Sections of the page: each is built when it comes near the window, and redrawn only while it is visible.
(() => {
  const builders = {};
  const parts = [];
  const PAPER_WIDTH = 660; // pixels within the margins of the narrower of A4 and Letter
  const PAPER_HEIGHT_SHARE = 0.62; // the height on paper as a share of that on the screen, so that two sections fit on a sheet

  // build(mount) puts elements into the mount and returns {update(changed), theme()}; `changed` is a Set of keys of the
  // state, or null to draw everything.
  theodolite.section = (key, build) => (builders[key] = build);

  const refresh = (part) => {
    if (!part.built) {
      part.built = builders[part.key](part.mount) || {};
      part.stale = null;
    }
    if (part.stale !== undefined && part.built.update) part.built.update(part.stale);
    part.stale = undefined;
  };

  theodolite.startSections = () => {
    const watcher = new IntersectionObserver(
      (entries) =>
        entries.forEach((entry) => {
          const part = parts.find((one) => one.section === entry.target);
          part.seen = entry.isIntersecting;
          if (part.seen) refresh(part);
        }),
      { rootMargin: "400px 0px" },
    );
    document.querySelectorAll("section[data-part]").forEach((section) => {
      if (!builders[section.dataset.part]) return;
      const part = { key: section.dataset.part, section, mount: section.querySelector(".mount"), seen: false, built: null, stale: null };
      parts.push(part);
      watcher.observe(section);
    });
    // A section in the window is drawn at once, one near it afterwards.
    const isInWindow = ({ section }) => {
      const { top, bottom } = section.getBoundingClientRect();
      return bottom > 0 && top < innerHeight;
    };
    const refreshLater = (part) => setTimeout(() => part.seen && refresh(part));
    theodolite.onChange((changed) => {
      const seen = parts.filter((part) => part.built && part.seen);
      const first = new Set(seen.filter(isInWindow));
      parts.forEach((part) => {
        if (part.built) part.stale = part.stale === null ? null : new Set([...(part.stale || []), ...changed]);
      });
      seen.forEach((part) => (first.has(part) ? refresh(part) : refreshLater(part)));
    });
    theodolite.redrawSections = () =>
      parts.forEach((part) => {
        if (!part.built) return;
        part.stale = null;
        if (part.seen) refresh(part);
      });
    theodolite.onTheme(theodolite.redrawSections);
    // Build all sections before the target of a link first: they would grow while scrolling and move the target.
    const buildBefore = (id) => {
      const target = document.getElementById(id);
      const before = ({ section }) => section === target || section.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (target) parts.filter((part) => !part.built && before(part)).forEach(refresh);
      return target;
    };
    addEventListener("click", (event) => buildBefore(event.target.closest?.('a[href^="#"]')?.hash.slice(1)), true);
    theodolite.scrollToPlace = (id) => buildBefore(id)?.scrollIntoView();
    theodolite.scrollToPlace(theodolite.currentPlace());
    // For printing, build all sections, and make the charts as wide as a sheet and less high.
    const charts = () => document.querySelectorAll(".js-plotly-plot:not([hidden])");
    const recolour = (paper) => theodolite.usePaperColours(paper) && parts.filter(({ built }) => built).forEach((part) => (part.stale = null));
    // Chromium prints the frame of a WebGL canvas that was last on the screen, which has another size. A copy is printed as it is.
    const copyWebgl = () =>
      document.querySelectorAll("canvas.gl-canvas-context").forEach((canvas) => {
        const copy = theodolite.el("canvas", { class: "printed", width: canvas.width, height: canvas.height, style: canvas.style.cssText });
        copy.getContext("2d").drawImage(canvas, 0, 0);
        canvas.hidden = true;
        canvas.after(copy);
      });
    const removeCopies = () => {
      document.querySelectorAll("canvas.printed").forEach((copy) => copy.remove());
      document.querySelectorAll("canvas.gl-canvas-context").forEach((canvas) => (canvas.hidden = false));
    };
    addEventListener("beforeprint", () => {
      document.querySelectorAll("details.provenance").forEach((one) => (one.open = true));
      recolour(true);
      parts.forEach(refresh);
      const width = (plot) => Math.min(plot.clientWidth, PAPER_WIDTH);
      charts().forEach((plot) => Plotly.relayout(plot, { ...theodolite.ticksAtWidth(plot, width(plot)), width: width(plot), height: Math.round(PAPER_HEIGHT_SHARE * plot.clientHeight), autosize: false }));
      copyWebgl();
    });
    addEventListener("afterprint", () => {
      removeCopies();
      recolour(false);
      parts.filter(({ seen }) => seen).forEach(refresh);
      charts().forEach((plot) => Plotly.relayout(plot, { ...theodolite.ticksAtWidth(plot, plot.clientWidth), width: null, height: null, autosize: true }));
    });
  };
})();

// Parts of the page: each is built when it comes near the window, and drawn again only while it can be seen.
(() => {
  const makers = {};
  const parts = [];
  const SHEET = 660; // pixels that the narrower of A4 and Letter has within the margins
  const FLAT = 0.62; // of their height on the screen: two parts then share a sheet

  // build(mount) puts elements into the mount and returns {update(changed), theme()}; `changed` is a Set of keys of the
  // state, or null when everything is to be drawn.
  theodolite.part = (key, build) => (makers[key] = build);

  const refresh = (part) => {
    if (!part.built) {
      part.built = makers[part.key](part.mount) || {};
      part.stale = null;
    }
    if (part.stale !== undefined && part.built.update) part.built.update(part.stale);
    part.stale = undefined;
  };

  theodolite.startParts = () => {
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
      if (!makers[section.dataset.part]) return;
      const part = { key: section.dataset.part, section, mount: section.querySelector(".mount"), seen: false, built: null, stale: null };
      parts.push(part);
      watcher.observe(section);
    });
    theodolite.onChange((changed) =>
      parts.forEach((part) => {
        if (!part.built) return;
        part.stale = part.stale === null ? null : new Set([...(part.stale || []), ...changed]);
        if (part.seen) refresh(part);
      }),
    );
    theodolite.redrawParts = () =>
      parts.forEach((part) => {
        if (!part.built) return;
        part.stale = null;
        if (part.seen) refresh(part);
      });
    theodolite.onTheme(theodolite.redrawParts);
    // A link leads past parts that are not built yet: they would grow on the way and push its target off.
    const makeWay = (id) => {
      const target = document.getElementById(id);
      const before = ({ section }) => section === target || section.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (target) parts.filter((part) => !part.built && before(part)).forEach(refresh);
      return target;
    };
    addEventListener("click", (event) => makeWay(event.target.closest?.('a[href^="#"]')?.hash.slice(1)), true);
    theodolite.leadTo = (id) => makeWay(id)?.scrollIntoView();
    theodolite.leadTo(theodolite.place());
    // On paper there is no window to come near to, and the charts are as wide as a sheet and flatter.
    const charts = () => document.querySelectorAll(".js-plotly-plot:not([hidden])");
    addEventListener("beforeprint", () => {
      parts.forEach(refresh);
      charts().forEach((plot) => Plotly.relayout(plot, { width: Math.min(plot.clientWidth, SHEET), height: Math.round(FLAT * plot.clientHeight), autosize: false }));
    });
    addEventListener("afterprint", () => charts().forEach((plot) => Plotly.relayout(plot, { width: null, height: null, autosize: true })));
  };
})();

// The name of the chosen layer, and the keys that change it on a chart; a chart may add more keys.
(() => {
  // The name of the chosen layer.
  theodolite.layerName = () => (theodolite.survey().layers[theodolite.state.layer] || { name: "–" }).name;

  // The same as part of a sentence; empty for a survey of given vectors with one layer.
  theodolite.atLayer = (before, after) => {
    const name = theodolite.layerName();
    if (theodolite.hasOneLayer() && !theodolite.survey().model) return "";
    const article = /at $/i.test(before) && /(embeddings|final norm)$/.test(name) ? "the " : "";
    return `${before}${article}${name}${after}`;
  };

  theodolite.layerKeys = (plot, more = {}) => {
    const keys = {
      ArrowLeft: () => theodolite.choose({ layer: theodolite.state.layer - 1 }),
      ArrowRight: () => theodolite.choose({ layer: theodolite.state.layer + 1 }),
      Home: () => theodolite.choose({ layer: 0 }),
      End: () => theodolite.choose({ layer: theodolite.survey().layers.length - 1 }),
      ...more,
    };
    plot.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      keys[event.key]();
    });
  };
})();

// The layer that is chosen, by name and by key: the arrow keys on a chart move it. More keys come with the chart.
(() => {
  // What the chosen layer is called.
  theodolite.layerName = () => (theodolite.survey().layers[theodolite.state.layer] || { name: "–" }).name;

  // The same within a sentence; nothing where vectors alone were measured, which have no layers.
  theodolite.atLayer = (before, after) => (theodolite.alone() && theodolite.layerName() === "vectors" ? "" : `${before}${theodolite.layerName()}${after}`);

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

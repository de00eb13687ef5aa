// The toolbar with the choices that all charts share: survey, population and layer.
(() => {
  const { el } = theodolite;

  theodolite.startToolbar = (mount) => {
    const surveys = theodolite.data.surveys;
    const survey = theodolite.select("Survey", surveys.map((one, at) => [at, one.name]), 0, (value) => theodolite.choose({ survey: Number(value) }));
    const population = theodolite.select("Population", [], "", (value) => theodolite.choose({ population: value }));
    const layer = theodolite.slider("Layer", 0, 0, (at) => (theodolite.survey().layers[at] || { name: "–" }).name, (at) => theodolite.choose({ layer: at }));
    if (surveys.length > 1) mount.append(survey.el);
    mount.append(population.el, layer.el);
    const update = () => {
      const { state } = theodolite;
      const { populations, layers } = theodolite.survey();
      survey.set(state.survey);
      population.box.replaceChildren(...populations.map((name) => el("option", { value: name }, name)));
      population.set(state.population);
      layer.set(state.layer, Math.max(layers.length - 1, 0));
      layer.el.hidden = layers.length < 2;
    };
    theodolite.onChange(update);
    update();
    mount.hidden = false;
    const measure = () => document.documentElement.style.setProperty("--toolbar", `${mount.offsetHeight}px`);
    measure();
    new ResizeObserver(measure).observe(mount);
  };
})();

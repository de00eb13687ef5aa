// What the reader has chosen. Every chart reads it from here and hears when it changes; none talks to another.
(() => {
  const listeners = [];
  const state = { survey: 0, population: "all", layer: 0, measure: "mean_cosine", token: -1, series: 0, step: -1 };

  theodolite.state = state;
  theodolite.onChange = (listener) => listeners.push(listener);
  theodolite.survey = () => theodolite.data.surveys[state.survey];

  // Our own words as this page needs them: where all surveys are of vectors, positions are vectors and tokens groups.
  theodolite.said = (text) => (theodolite.data.words || []).reduce((told, [pattern, instead]) => told.replace(new RegExp(pattern, "g"), instead), text);
  // Whether the chosen survey has one layer only, and there is nothing to move to.
  theodolite.alone = () => theodolite.survey().layers.length < 2;

  // Set some of it; whatever no longer fits the chosen survey moves to the nearest that does. A page of series alone
  // has no survey.
  theodolite.choose = (changes) => {
    const before = { ...state };
    const old = theodolite.survey();
    Object.assign(state, changes);
    const survey = theodolite.survey();
    if (survey) fit(survey, old, before, changes);
    const changed = Object.keys(state).filter((key) => state[key] !== before[key]);
    if (changed.length) listeners.forEach((listener) => listener(new Set(changed)));
  };

  const fit = (survey, old, before, changes) => {
    if (state.survey !== before.survey) {
      const depth = old && old.layers[before.layer] ? old.layers[before.layer].depth : 1;
      const away = survey.layers.map((layer) => Math.abs(layer.depth - depth));
      if (!("layer" in changes)) state.layer = away.length ? away.indexOf(Math.min(...away)) : 0;
      if (!("token" in changes) && before.token >= 0) {
        state.token = survey.units.text.indexOf(old.units.text[before.token]);
      }
    }
    if (!survey.populations.includes(state.population)) state.population = survey.populations[0] || "all";
    state.layer = Math.min(Math.max(state.layer, 0), Math.max(survey.layers.length - 1, 0));
  };

  // A number a layer, of the chosen survey and population unless told otherwise; null where there is none.
  theodolite.profile = (column, population = state.population, survey = theodolite.survey()) => {
    const found = survey && survey.profiles[population];
    return found ? theodolite.column(found.columns[column]) : null;
  };
  theodolite.reason = (column, population = state.population, survey = theodolite.survey(), otherwise = "The survey does not tell it for this population.") => {
    const found = survey && survey.profiles[population];
    return (found && found.reasons[column]) || otherwise;
  };
})();

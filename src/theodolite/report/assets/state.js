// The choices of the reader: survey, population, layer, measure, token, series and step. Every chart reads them here.
(() => {
  const listeners = [];
  const state = { survey: 0, population: "all", layer: 0, measure: "mean_cosine", token: -1, series: 0, step: -1 };

  theodolite.state = state;
  theodolite.onChange = (listener) => listeners.push(listener);
  theodolite.survey = () => theodolite.data.surveys[state.survey];

  // The population that is shown first: that of the page, so that surveys beside each other show the same one.
  theodolite.usualPopulation = ({ populations }) => [theodolite.data.population, ...populations].find((name) => populations.includes(name)) || "all";

  // Text for a page on which all surveys are of given vectors: positions become vectors, and tokens become groups.
  theodolite.reword = (text) => (theodolite.data.rewordings || []).reduce((made, [pattern, replacement]) => made.replace(new RegExp(pattern, "g"), replacement), text);
  // Whether the chosen survey has one layer only.
  theodolite.hasOneLayer = () => theodolite.survey().layers.length < 2;

  // Change some choices. Choices that the survey does not have move to the nearest that it has. A page may have no survey.
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
      const distances = survey.layers.map((layer) => Math.abs(layer.depth - depth));
      if (!("layer" in changes)) state.layer = distances.length ? distances.indexOf(Math.min(...distances)) : 0;
      if (!("token" in changes) && before.token >= 0) {
        state.token = survey.units.text.indexOf(old.units.text[before.token]);
      }
    }
    if (!survey.populations.includes(state.population)) state.population = theodolite.usualPopulation(survey);
    state.layer = Math.min(Math.max(state.layer, 0), Math.max(survey.layers.length - 1, 0));
  };

  // One number per layer, by default of the chosen survey and population; null if the survey does not have the column.
  theodolite.profile = (column, population = state.population, survey = theodolite.survey()) => {
    const found = survey && survey.profiles[population];
    return found ? theodolite.column(found.columns[column]) : null;
  };
  theodolite.reason = (column, population = state.population, survey = theodolite.survey(), otherwise = "The survey does not have it for this population.") => {
    const found = survey && survey.profiles[population];
    return (found && found.reasons[column]) || otherwise;
  };
})();

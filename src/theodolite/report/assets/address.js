// The choices of the reader in the address: #norms&layer=3&norms.axis=log opens the norms with the same choices.
// Defaults are omitted, and unknown keys are ignored.
(() => {
  const DELAY = 150; // milliseconds without a change: some browsers reject frequent changes of the address
  const defaults = { ...theodolite.state };
  const own = new Map(); // the choices of one section, by "section.name"
  const setters = new Map();
  let place = ""; // the id of the target of the last link, or of the section that was last changed
  let written = "";
  let timer = 0;

  // By name, which stays the same when the page is made again; by number if an earlier one has the same name.
  const named = (names, at) => (names.indexOf(names[at]) === at ? String(names[at]) : `~${at}`);
  const found = (names, word) => {
    const at = names.findIndex((name) => String(name) === word);
    return at < 0 && /^~\d+$/.test(word) && Number(word.slice(1)) < names.length ? Number(word.slice(1)) : at;
  };
  const namesOf = (things) => things.map(({ name }) => name);
  const numbersOf = (layers) => layers.map(({ layer }) => layer);

  const words = () => {
    const { surveys, series } = theodolite.data;
    const { state } = theodolite;
    const survey = theodolite.survey();
    const steps = series[state.series] ? series[state.series].steps : [];
    const last = ({ length }, at) => at < 0 || at >= length - 1;
    return [
      ["survey", state.survey > 0 && named(namesOf(surveys), state.survey)],
      ["population", survey && state.population !== theodolite.usualPopulation(survey) && state.population],
      ["layer", survey && state.layer !== survey.opening && named(numbersOf(survey.layers), state.layer)],
      ["measure", state.measure !== defaults.measure && state.measure],
      ["token", survey && state.token >= 0 && named(survey.units.text, state.token)],
      ["series", state.series > 0 && named(namesOf(series), state.series)],
      ["step", !last(steps, state.step) && named(steps, state.step)],
      ...own,
    ].filter(([, word]) => word);
  };
  const parse = (asked) => {
    const { surveys, series, measures } = theodolite.data;
    const seek = (names, key, otherwise) => {
      const at = asked.has(key) ? found(names, asked.get(key)) : -1;
      return at < 0 ? otherwise : at;
    };
    const made = { ...defaults, survey: seek(namesOf(surveys), "survey", 0), series: seek(namesOf(series), "series", 0) };
    if (measures.some(({ columns }) => columns.some(([name]) => name === asked.get("measure")))) made.measure = asked.get("measure");
    const steps = series[made.series] ? series[made.series].steps : [];
    made.step = seek(steps, "step", -1);
    const survey = surveys[made.survey];
    if (!survey) return made;
    made.population = survey.populations[seek(survey.populations, "population", -1)] || theodolite.usualPopulation(survey);
    made.layer = seek(numbersOf(survey.layers), "layer", survey.opening);
    made.token = seek(survey.units.text, "token", -1);
    return made;
  };

  // Read the address: a key without a value is a place on the page.
  const read = () => {
    const pairs = [...new URLSearchParams(location.hash.slice(1))];
    const bare = pairs.find(([, value]) => !value);
    const ofPart = (key) => key.includes(".") && document.getElementById(key.split(".")[0])?.dataset.part;
    const asked = new Map(pairs.filter(([key, value]) => value && (Object.hasOwn(defaults, key) || ofPart(key))));
    return { asked, place: bare && document.getElementById(bare[0]) ? bare[0] : "" };
  };
  const applyChoices = (asked) => {
    theodolite.choose(parse(asked));
    own.clear();
    asked.forEach((value, key) => Object.hasOwn(defaults, key) || own.set(key, value));
    setters.forEach((set, name) => set(own.get(name)));
  };
  // A page inside another one may not change its address.
  const write = () => {
    const hash = [place, String(new URLSearchParams(words()))].filter(Boolean).join("&");
    try {
      history.replaceState({ written: true }, "", hash ? `#${hash}` : location.href.split("#")[0]);
    } catch {
      // only the link is lost
    }
    written = location.hash;
  };
  // The section that is being read, which is the target of a link to this view.
  const visibleSection = () => {
    const line = innerHeight / 3;
    const frames = [...document.querySelectorAll("section[data-part]")].map((part) => [part.id, part.getBoundingClientRect()]);
    return (frames.find(([, { top, bottom }]) => top <= line && bottom > line) || [place])[0];
  };
  const changed = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (location.hash !== written) return; // the reader follows a link, and `hashchange` writes the address
      place = visibleSection();
      write();
    }, DELAY);
  };

  // Store a choice of one section in the address. `set` gets the value from the address now and when it changes, or
  // undefined for the default; call the function that is returned with each value that the reader chooses.
  theodolite.storeChoice = (name, set) => {
    setters.set(name, set);
    if (own.has(name)) set(own.get(name));
    return (value) => {
      if (value === undefined) own.delete(name);
      else own.set(name, value);
      changed();
    };
  };
  // The same for a <select> or a checkbox that has its default value now.
  theodolite.storeControl = (name, box) => {
    const check = box.type === "checkbox";
    const current = () => (check ? (box.checked ? "yes" : "no") : box.value);
    const options = () => (check ? ["yes", "no"] : [...box.options].map(({ value }) => value));
    const first = current();
    const choose = theodolite.storeChoice(name, (asked) => {
      const word = options().includes(asked) ? asked : first;
      if (check) box.checked = word === "yes";
      else box.value = word;
      if (word !== asked) own.delete(name);
    });
    box.addEventListener("change", () => choose(current() === first ? undefined : current()));
  };

  // Called before anything is drawn; `startSections` then scrolls to the place.
  theodolite.startAddress = () => {
    const { asked, place: at } = read();
    applyChoices(asked);
    place = at;
    write();
    theodolite.onChange(changed);
    addEventListener("hashchange", () => {
      const { asked: now, place: to } = read();
      place = to;
      // A link on the page has a place only and changes no choice. An address that was written before or typed by the
      // reader has all choices.
      const link = !history.state && !now.size;
      if (!link) {
        applyChoices(now);
        theodolite.redrawSections();
        if (!history.state) theodolite.scrollToPlace(place);
      }
      clearTimeout(timer);
      write();
    });
  };
  theodolite.currentPlace = () => place;
})();

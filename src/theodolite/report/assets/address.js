// What the reader has chosen, in the address: #norms&layer=3&norms.axis=log opens at the norms, as they were seen.
// What is as usual is not told; what this page does not know is passed over.
(() => {
  const REST = 150; // milliseconds without a change: some browsers refuse an address that follows a slider
  const usual = { ...theodolite.state };
  const own = new Map(); // what is chosen for one part alone, by "part.name"
  const setters = new Map();
  let place = ""; // where the page stands: the id of what a link led to, or of the part that was last changed
  let written = "";
  let timer = 0;

  // By name, which a page made anew still has; by number where one before it has the same.
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
      ["population", survey && state.population !== (survey.populations[0] || "all") && state.population],
      ["layer", survey && !last(survey.layers, state.layer) && named(numbersOf(survey.layers), state.layer)],
      ["measure", state.measure !== usual.measure && state.measure],
      ["token", survey && state.token >= 0 && named(survey.units.text, state.token)],
      ["series", state.series > 0 && named(namesOf(series), state.series)],
      ["step", !last(steps, state.step) && named(steps, state.step)],
      ...own,
    ].filter(([, word]) => word);
  };
  const understood = (asked) => {
    const { surveys, series, measures } = theodolite.data;
    const seek = (names, key, otherwise) => {
      const at = asked.has(key) ? found(names, asked.get(key)) : -1;
      return at < 0 ? otherwise : at;
    };
    const made = { ...usual, survey: seek(namesOf(surveys), "survey", 0), series: seek(namesOf(series), "series", 0) };
    if (measures.some(({ columns }) => columns.some(([name]) => name === asked.get("measure")))) made.measure = asked.get("measure");
    const steps = series[made.series] ? series[made.series].steps : [];
    made.step = seek(steps, "step", -1);
    const survey = surveys[made.survey];
    if (!survey) return made;
    made.population = survey.populations[seek(survey.populations, "population", 0)] || "all";
    made.layer = seek(numbersOf(survey.layers), "layer", Math.max(survey.layers.length - 1, 0));
    made.token = seek(survey.units.text, "token", -1);
    return made;
  };

  // The address as it stands: a word without a value is a place on the page.
  const read = () => {
    const pairs = [...new URLSearchParams(location.hash.slice(1))];
    const bare = pairs.find(([, value]) => !value);
    const ofPart = (key) => key.includes(".") && document.getElementById(key.split(".")[0])?.dataset.part;
    const asked = new Map(pairs.filter(([key, value]) => value && (Object.hasOwn(usual, key) || ofPart(key))));
    return { asked, place: bare && document.getElementById(bare[0]) ? bare[0] : "" };
  };
  const take = (asked) => {
    theodolite.choose(understood(asked));
    own.clear();
    asked.forEach((value, key) => Object.hasOwn(usual, key) || own.set(key, value));
    setters.forEach((set, name) => set(own.get(name)));
  };
  // A page within another has no address of its own: there it stays as it is.
  const write = () => {
    const hash = [place, String(new URLSearchParams(words()))].filter(Boolean).join("&");
    try {
      history.replaceState({ told: true }, "", hash ? `#${hash}` : location.href.split("#")[0]);
    } catch {
      // nothing is lost but the link
    }
    written = location.hash;
  };
  // The part that is being read, to which a link to this view should lead.
  const here = () => {
    const line = innerHeight / 3;
    const frames = [...document.querySelectorAll("section[data-part]")].map((part) => [part.id, part.getBoundingClientRect()]);
    return (frames.find(([, { top, bottom }]) => top <= line && bottom > line) || [place])[0];
  };
  const changed = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (location.hash !== written) return; // the reader is on the way elsewhere: what follows writes it
      place = here();
      write();
    }, REST);
  };

  // A choice of one part alone. `set` hears what the address says, now and whenever that changes, and undefined for the
  // usual; call what comes back with what the reader chooses.
  theodolite.keep = (name, set) => {
    setters.set(name, set);
    if (own.has(name)) set(own.get(name));
    return (value) => {
      if (value === undefined) own.delete(name);
      else own.set(name, value);
      changed();
    };
  };
  // The same for a <select> or a checkbox that stands at the usual now.
  theodolite.keepBox = (name, box) => {
    const check = box.type === "checkbox";
    const told = () => (check ? (box.checked ? "yes" : "no") : box.value);
    const offered = () => (check ? ["yes", "no"] : [...box.options].map(({ value }) => value));
    const first = told();
    const choose = theodolite.keep(name, (asked) => {
      const word = offered().includes(asked) ? asked : first;
      if (check) box.checked = word === "yes";
      else box.value = word;
      if (word !== asked) own.delete(name);
    });
    box.addEventListener("change", () => choose(told() === first ? undefined : told()));
  };

  // Before anything is drawn; `startParts` then goes to the place.
  theodolite.startAddress = () => {
    const { asked, place: at } = read();
    take(asked);
    place = at;
    write();
    theodolite.onChange(changed);
    addEventListener("hashchange", () => {
      const { asked: now, place: to } = read();
      place = to;
      // A link on the page names a place alone, and nothing that was chosen changes. What was written here before and
      // is gone back to, or is given by the reader, tells all of it.
      const link = !history.state && !now.size;
      if (!link) {
        take(now);
        theodolite.redrawParts();
        if (!history.state) theodolite.leadTo(place);
      }
      clearTimeout(timer);
      write();
    });
  };
  theodolite.place = () => place;
})();

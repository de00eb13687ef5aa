// Small makers of elements. Text goes in as text, never as markup: tokens are data.
(() => {
  theodolite.el = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  };

  let number = 0;
  const fresh = () => `c${(number += 1)}`;

  // A labelled <select>; options are [value, words] or {group, options}.
  theodolite.select = (label, options, value, onchange) => {
    const id = fresh();
    const option = ([given, words]) => theodolite.el("option", { value: given, selected: String(given) === String(value) }, words);
    const entries = options.map((one) => (Array.isArray(one) ? option(one) : theodolite.el("optgroup", { label: one.group }, ...one.options.map(option))));
    const box = theodolite.el("select", { id, onchange: () => onchange(box.value) }, ...entries);
    return { el: theodolite.el("div", { class: "control" }, theodolite.el("label", { for: id }, label), box), box, set: (given) => (box.value = given) };
  };

  // A labelled slider that says in words where it stands.
  theodolite.slider = (label, most, value, words, oninput) => {
    const id = fresh();
    const told = theodolite.el("output", { for: id });
    const box = theodolite.el("input", { id, type: "range", min: 0, max: most, step: 1, value });
    const tell = () => {
      told.textContent = words(Number(box.value));
      box.setAttribute("aria-valuetext", told.textContent);
    };
    box.addEventListener("input", () => {
      tell();
      oninput(Number(box.value));
    });
    tell();
    return {
      el: theodolite.el("div", { class: "control slider" }, theodolite.el("label", { for: id }, label), box, told),
      box,
      set: (given, highest = most) => {
        box.max = highest;
        box.value = given;
        tell();
      },
    };
  };

  // Text for Plotly, which reads a few tags in names, titles and hover texts: a name from outside is no markup.
  theodolite.words = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
})();

// Functions that create elements and controls. Text is never read as markup.
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
  const newId = () => `c${(number += 1)}`;

  // A labelled <select>; options are [value, text] or {group, options}.
  theodolite.select = (label, options, value, onchange) => {
    const id = newId();
    const option = ([given, text]) => theodolite.el("option", { value: given, selected: String(given) === String(value) }, text);
    const entries = options.map((one) => (Array.isArray(one) ? option(one) : theodolite.el("optgroup", { label: one.group }, ...one.options.map(option))));
    const box = theodolite.el("select", { id, onchange: () => onchange(box.value) }, ...entries);
    return { el: theodolite.el("div", { class: "control" }, theodolite.el("label", { for: id }, label), box), box, set: (given) => (box.value = given) };
  };

  // A labelled slider that shows its value as text.
  theodolite.slider = (label, most, value, format, oninput) => {
    const id = newId();
    const output = theodolite.el("output", { for: id });
    const box = theodolite.el("input", { id, type: "range", min: 0, max: most, step: 1, value });
    const showValue = () => {
      output.textContent = format(Number(box.value));
      box.setAttribute("aria-valuetext", output.textContent);
    };
    box.addEventListener("input", () => {
      showValue();
      oninput(Number(box.value));
    });
    showValue();
    return {
      el: theodolite.el("div", { class: "control slider" }, theodolite.el("label", { for: id }, label), box, output),
      box,
      set: (given, highest = most) => {
        box.max = highest;
        box.value = given;
        showValue();
      },
    };
  };

  // Escape text for Plotly, which reads some tags in names, titles and hover texts.
  theodolite.escapeText = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
})();

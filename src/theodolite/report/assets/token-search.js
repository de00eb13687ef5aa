// The search box: a combobox that lists matching tokens. Arrows move, Enter chooses, Escape closes the list, then clears.
(() => {
  const { el } = theodolite;

  // options: found(text) -> {count, places (best first), hint if none} or null; token(place) -> {text, n}; onsearch(text); onchoose(place).
  theodolite.tokenSearch = (options) => {
    const list = el("ul", { id: "token-list", role: "listbox", class: "matches", "aria-label": theodolite.reword("Tokens found"), hidden: true });
    const box = el("input", {
      id: "token-search", type: "search", role: "combobox", autocomplete: "off", autocapitalize: "off", spellcheck: "false",
      placeholder: theodolite.reword("part of a token"), "aria-autocomplete": "list", "aria-controls": "token-list", "aria-expanded": "false",
    });
    const status = el("span", { class: "unseen", role: "status" });
    let places = [];
    let active = -1;

    const close = () => {
      list.hidden = true;
      active = -1;
      box.setAttribute("aria-expanded", "false");
      box.removeAttribute("aria-activedescendant");
    };
    const choose = (at) => {
      box.value = "";
      close();
      status.textContent = "";
      options.onsearch("");
      options.onchoose(places[at]);
    };
    const move = (to) => {
      active = (to + places.length) % places.length;
      [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === active)));
      box.setAttribute("aria-activedescendant", `token-list-${active}`);
      list.children[active].scrollIntoView({ block: "nearest" });
    };
    const open = () => {
      const found = options.found(box.value);
      places = found ? found.places : [];
      list.replaceChildren(
        ...places.map((place, at) => {
          const { text, n } = options.token(place);
          // On pointerdown, before the box loses the focus and closes the list.
          const pick = (event) => (event.preventDefault(), choose(at));
          return el("li", { id: `token-list-${at}`, role: "option", "aria-selected": "false", onpointerdown: pick }, el("bdi", {}, text), el("span", {}, theodolite.formatCount(n)));
        }),
      );
      status.textContent = !found ? "" : found.count ? `${theodolite.formatCount(found.count)} found` : found.hint;
      close();
      if (places.length) {
        list.hidden = false;
        box.setAttribute("aria-expanded", "true");
      }
    };
    box.addEventListener("input", () => {
      open();
      options.onsearch(box.value);
    });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        if (list.hidden && box.value) {
          box.value = "";
          open();
          options.onsearch("");
        }
        close();
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        if (list.hidden) open();
        if (places.length) move(event.key === "ArrowDown" ? active + 1 : active < 0 ? places.length - 1 : active - 1);
      } else if (event.key === "Enter" && places.length && !list.hidden) {
        choose(Math.max(active, 0));
      } else return;
      event.preventDefault();
    });
    box.addEventListener("blur", close);
    return {
      el: el("div", { class: "control search" }, el("label", { for: "token-search" }, theodolite.reword("Find a token "), status), box, list),
      words: () => box.value,
      refresh: () => {
        open();
        close(); // report the number of matches without opening the list
      },
      clear: () => {
        box.value = "";
        open();
      },
    };
  };
})();

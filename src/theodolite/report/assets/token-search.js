// The search box: a combobox whose list holds the tokens that match. Arrows move, Enter takes, Escape closes, then empties.
(() => {
  const { el } = theodolite;

  // options: found(words) -> {count, places: the best first, hint for none} or null; token(place) -> {text, n}; onsearch(words); onchoose(place).
  theodolite.tokenSearch = (options) => {
    const list = el("ul", { id: "token-list", role: "listbox", class: "matches", "aria-label": theodolite.said("Tokens found"), hidden: true });
    const box = el("input", {
      id: "token-search", type: "search", role: "combobox", autocomplete: "off", autocapitalize: "off", spellcheck: "false",
      placeholder: theodolite.said("a part of a token"), "aria-autocomplete": "list", "aria-controls": "token-list", "aria-expanded": "false",
    });
    const told = el("span", { class: "unseen", role: "status" });
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
      told.textContent = "";
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
          // Before the box loses the focus, which would close the list.
          const take = (event) => (event.preventDefault(), choose(at));
          return el("li", { id: `token-list-${at}`, role: "option", "aria-selected": "false", onpointerdown: take }, el("bdi", {}, text), el("span", {}, theodolite.count(n)));
        }),
      );
      told.textContent = !found ? "" : found.count ? `${theodolite.count(found.count)} found` : found.hint;
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
      el: el("div", { class: "control search" }, el("label", { for: "token-search" }, theodolite.said("Find a token "), told), box, list),
      words: () => box.value,
      again: () => {
        open();
        close(); // what is found is told, without a list over the rest
      },
      empty: () => {
        box.value = "";
        open();
      },
    };
  };
})();

// The token table at the chosen layer: sorted by any column, 50 rows a page.
(() => {
  const { el } = theodolite;
  const PAGE = 50;
  const COLUMNS = [
    ["text", "Token", "ascending"], ["n", "n", "descending"], ["q", "Q", "descending"],
    ["m", "M", "descending"], ["v", "V", "descending"], ["share", "M/Q", "descending"],
  ];

  theodolite.tokenTable = () => {
    let by = "n";
    let way = "descending";
    let page = 0;
    let shown = null;
    let order = [];
    let known = "";

    const body = el("tbody");
    const heads = COLUMNS.map(([name, words, first]) => {
      const sort = () => {
        way = by === name ? (way === "ascending" ? "descending" : "ascending") : first;
        by = name;
        page = 0;
        fill();
      };
      return el("th", { scope: "col" }, el("button", { type: "button", onclick: sort }, theodolite.said(words)));
    });
    const turn = (words, by) => el("button", { type: "button", class: "small", onclick: () => ((page += by), fill()) }, words);
    const [back, on] = [turn("Earlier", -1), turn("Later", 1)];
    const told = el("span", { role: "status" });
    const caption = el("caption");
    const csv = () => theodolite.saveTable("tokens", ["survey"], theodolite.tokenRows(shown.tokens, sorted(), shown.layer));
    const element = el(
      "div", { class: "token-table" },
      el("div", { class: "scroll" }, el("table", {}, caption, el("thead", {}, el("tr", {}, ...heads)), body)),
      el("div", { class: "pager" }, back, told, on, el("button", { type: "button", class: "small", onclick: csv, "aria-label": theodolite.said("Save the table as csv: all rows at this layer") }, "csv")),
    );

    // By text or n the order is the same at every layer, and sorting 25,000 is what a slider would feel.
    const sorted = () => {
      const { tokens, kept, layer } = shown;
      const fixed = by === "text" || by === "n";
      const key = [by, way, fixed ? "" : layer].join();
      if (known === key) return order;
      const column = by === "text" ? tokens.text : tokens[by](layer);
      const sign = way === "ascending" ? 1 : -1;
      const words = new Intl.Collator("en", { numeric: true });
      order = Array.from(kept);
      if (by === "text") order.sort((a, b) => sign * words.compare(column[a], column[b]));
      else {
        // What is undefined stands last, whichever way.
        const held = (at) => (Number.isNaN(column[at]) ? Infinity : sign * column[at]);
        const keys = Float64Array.from(order, held);
        const places = Uint32Array.from(order, (_, at) => at).sort((a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : a - b));
        order = Array.from(places, (at) => kept[at]);
      }
      known = key;
      return order;
    };
    const row = (at) => {
      const { tokens, layer } = shown;
      const choose = () => theodolite.choose({ token: at });
      const name = el("button", { type: "button" }, el("bdi", {}, tokens.text[at]));
      const numbers = COLUMNS.slice(1).map(([column], place) => el("td", {}, (place ? (x) => theodolite.show(x, column === "share" ? 3 : 4) : theodolite.count)(tokens[column](layer)[at])));
      const mark = tokens.special[at] ? [" ", el("span", { class: "special" }, "special")] : [];
      return el("tr", { onclick: choose, "aria-current": at === theodolite.state.token ? "true" : null, "data-token": at }, el("th", { scope: "row" }, name, ...mark), ...numbers);
    };
    const fill = () => {
      if (!shown) return;
      const all = sorted();
      const pages = Math.max(Math.ceil(all.length / PAGE), 1);
      page = Math.min(Math.max(page, 0), pages - 1);
      const rows = all.slice(page * PAGE, (page + 1) * PAGE);
      const focused = body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.token : null;
      body.replaceChildren(...rows.map(row));
      if (focused !== null) body.querySelector(`tr[data-token="${focused}"] button`)?.focus({ preventScroll: true });
      heads.forEach((head, at) => (COLUMNS[at][0] === by ? head.setAttribute("aria-sort", way) : head.removeAttribute("aria-sort")));
      caption.textContent = `${theodolite.said("The tokens")}${theodolite.atLayer(" at ", "")}`;
      told.textContent = rows.length
        ? `${theodolite.count(page * PAGE + 1)} to ${theodolite.count(page * PAGE + rows.length)} of ${theodolite.count(all.length)}`
        : theodolite.said("No token passes the filter.");
      back.disabled = page === 0;
      on.disabled = page >= pages - 1;
    };
    return {
      el: element,
      // `kept` are the places of the units that pass search and filter.
      show: (tokens, kept, layer) => {
        if (!shown || shown.kept !== kept || shown.tokens !== tokens) {
          known = "";
          page = 0;
        }
        shown = { tokens, kept, layer };
        fill();
      },
      // Marks the chosen row; turns to its page unless it can be seen already.
      mark: () => {
        if (!shown) return;
        const at = sorted().indexOf(theodolite.state.token);
        if (at >= 0 && Math.floor(at / PAGE) !== page) page = Math.floor(at / PAGE);
        fill();
      },
    };
  };
})();

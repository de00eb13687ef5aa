// The table of tokens at the chosen layer, sortable by any column, 50 rows per page.
(() => {
  const { el } = theodolite;
  const PAGE = 50;
  const COLUMNS = [
    ["text", "Token", "ascending"], ["n", "n", "descending"], ["q", "Q", "descending"],
    ["m", "M", "descending"], ["v", "V", "descending"], ["share", "M/Q", "descending"],
  ];

  theodolite.tokenTable = () => {
    let by = "n";
    let direction = "descending";
    let page = 0;
    let shown = null;
    let order = [];
    let known = "";

    const body = el("tbody");
    const heads = COLUMNS.map(([name, words, first]) => {
      const sort = () => {
        direction = by === name ? (direction === "ascending" ? "descending" : "ascending") : first;
        by = name;
        page = 0;
        fill();
      };
      return el("th", { scope: "col" }, el("button", { type: "button", onclick: sort }, theodolite.reword(words)));
    });
    const turn = (words, by) => el("button", { type: "button", class: "small", onclick: () => ((page += by), fill()) }, words);
    const [back, on] = [turn("Previous", -1), turn("Next", 1)];
    const status = el("span", { role: "status" });
    const caption = el("caption");
    const csv = () => theodolite.saveTable("tokens", ["survey"], theodolite.tokenRows(shown.tokens, sorted(), shown.layer));
    const element = el(
      "div", { class: "token-table" },
      el("div", { class: "scroll" }, el("table", {}, caption, el("thead", {}, el("tr", {}, ...heads)), body)),
      el("div", { class: "pager" }, back, status, on, el("button", { type: "button", class: "small", onclick: csv, "aria-label": theodolite.reword("Save all rows at this layer as csv") }, "csv")),
    );

    // By text or n the order is the same at every layer; sorting 25,000 rows again would slow down the slider.
    const sorted = () => {
      const { tokens, kept, layer } = shown;
      const fixed = by === "text" || by === "n";
      const key = [by, direction, fixed ? "" : layer].join();
      if (known === key) return order;
      const column = by === "text" ? tokens.text : tokens[by](layer);
      const sign = direction === "ascending" ? 1 : -1;
      const words = new Intl.Collator("en", { numeric: true });
      order = Array.from(kept);
      if (by === "text") order.sort((a, b) => sign * words.compare(column[a], column[b]));
      else {
        // Undefined values are last in both directions.
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
      const numbers = COLUMNS.slice(1).map(([column], place) => el("td", {}, (place ? (x) => theodolite.formatNumber(x, column === "share" ? 3 : 4) : theodolite.formatCount)(tokens[column](layer)[at])));
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
      heads.forEach((head, at) => (COLUMNS[at][0] === by ? head.setAttribute("aria-sort", direction) : head.removeAttribute("aria-sort")));
      caption.textContent = `${theodolite.reword("Tokens")}${theodolite.atLayer(" at ", "")}`;
      status.textContent = rows.length
        ? `${theodolite.formatCount(page * PAGE + 1)} to ${theodolite.formatCount(page * PAGE + rows.length)} of ${theodolite.formatCount(all.length)}`
        : theodolite.reword("No token matches the filter.");
      back.disabled = page === 0;
      on.disabled = page >= pages - 1;
    };
    return {
      el: element,
      // `kept` are the indices of the units that match search and filter.
      show: (tokens, kept, layer) => {
        if (!shown || shown.kept !== kept || shown.tokens !== tokens) {
          known = "";
          page = 0;
        }
        shown = { tokens, kept, layer };
        fill();
      },
      // Mark the chosen row and show its page.
      mark: () => {
        if (!shown) return;
        const at = sorted().indexOf(theodolite.state.token);
        if (at >= 0 && Math.floor(at / PAGE) !== page) page = Math.floor(at / PAGE);
        fill();
      },
    };
  };
})();

// Tables to take away: each says by itself of which survey, positions and layer it is.
(() => {
  const { el } = theodolite;

  const save = (name, kind, text) => {
    const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const quoted = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "";
    return typeof value === "number" ? String(value) : `"${String(value).replaceAll('"', '""')}"`;
  };
  const csv = (columns, rows) => [columns, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";

  // What the reader has chosen, by name; nothing on a page without surveys.
  theodolite.chosen = (names) => {
    const survey = theodolite.survey();
    if (!survey) return [];
    const now = { survey: survey.name, population: theodolite.state.population, layer: (survey.layers[theodolite.state.layer] || {}).name };
    return names.map((name) => [name, now[name]]).filter(([, value]) => value);
  };

  // A file's name without ending: the survey's, where it is of one, and what it holds.
  theodolite.fileName = (file, shows) => {
    const survey = theodolite.chosen(shows.filter((one) => one === "survey")).map(([, value]) => value);
    return [...survey, file].join("-").replace(/[^\p{L}\p{N}.-]+/gu, "-");
  };

  theodolite.saveTable = (file, shows, { columns, rows }) => {
    const more = theodolite.chosen(shows).filter(([column]) => !columns.includes(column) && !columns.includes(`${column}_name`));
    const [heads, values] = [more.map(([column]) => column), more.map(([, value]) => value)];
    const text = csv([...heads, ...columns], rows.map((row) => [...values, ...row]));
    save(`${theodolite.fileName(file, shows)}.csv`, "text/csv;charset=utf-8", text);
  };
})();

// Saving tables as CSV, with columns for the survey, population and layer that they are for.
(() => {
  const { el } = theodolite;

  const save = (name, kind, text) => {
    const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  // A spreadsheet would run such text as a formula; as escape_formula in escaping.py.
  const formula = /^(?![-+]?[\d.]+(e[-+]?\d+)?$)[=+\-@\t\r]./is;
  const quote = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "";
    if (typeof value === "number") return String(value);
    return `"${formula.test(value) ? "'" : ""}${String(value).replaceAll('"', '""')}"`;
  };
  const csv = (columns, rows) => [columns, ...rows].map((row) => row.map(quote).join(",")).join("\r\n") + "\r\n";

  // The names and values of choices of the reader; empty on a page without surveys.
  theodolite.chosenValues = (names) => {
    const survey = theodolite.survey();
    if (!survey) return [];
    const now = { survey: survey.name, population: theodolite.state.population, layer: (survey.layers[theodolite.state.layer] || {}).name };
    return names.map((name) => [name, now[name]]).filter(([, value]) => value);
  };

  // A file name without ending: the survey, if the file is for one, and the content.
  theodolite.fileName = (file, shows) => {
    const survey = theodolite.chosenValues(shows.filter((one) => one === "survey")).map(([, value]) => value);
    return [...survey, file].join("-").replace(/[^\p{L}\p{N}.-]+/gu, "-");
  };

  theodolite.saveTable = (file, shows, { columns, rows }) => {
    const more = theodolite.chosenValues(shows).filter(([column]) => !columns.includes(column) && !columns.includes(`${column}_name`));
    const [heads, values] = [more.map(([column]) => column), more.map(([, value]) => value)];
    const text = csv([...heads, ...columns], rows.map((row) => [...values, ...row]));
    save(`${theodolite.fileName(file, shows)}.csv`, "text/csv;charset=utf-8", text);
  };
})();

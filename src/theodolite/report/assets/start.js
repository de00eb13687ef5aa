// Begins when the page is read.
(() => {
  theodolite.data = JSON.parse(document.getElementById("data").textContent);
  const byColumn = {};
  theodolite.data.measures.forEach(({ columns }) => columns.forEach(([name, label, meaning, href, bounded]) => (byColumn[name] = { name, label, meaning, href, bounded })));
  theodolite.measure = (column) => byColumn[column] || { name: column, label: column, meaning: "", href: "" };

  theodolite.startTheme(document.getElementById("theme"));
  theodolite.startAddress();
  // A page may hold series or pictures alone: then there is no survey to choose.
  if (theodolite.data.surveys.some((survey) => survey.layers.length)) theodolite.startToolbar(document.getElementById("toolbar"));
  theodolite.startParts();
  // A finding shows its own measure: the link goes to the chart, the measure with it.
  document.querySelectorAll("[data-measure]").forEach((link) =>
    link.addEventListener("click", () => {
      const { measure, survey, series, layer } = link.dataset;
      const layers = survey ? theodolite.data.surveys[survey].layers : [];
      const at = layers.findIndex(({ name }) => name === layer);
      theodolite.choose({
        measure, ...(survey ? { survey: Number(survey) } : {}), ...(at >= 0 ? { layer: at } : {}), ...(series ? { series: Number(series) } : {}),
      });
    }),
  );
  // A picture is saved from where it stands: its bytes are in the page once.
  document.querySelectorAll("[data-save]").forEach((link) => {
    link.download = link.dataset.save;
    link.href = link.closest("figure").querySelector("img").src;
  });
  document.documentElement.dataset.ready = "yes";
})();

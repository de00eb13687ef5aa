// Starts the page.
(() => {
  theodolite.data = JSON.parse(document.getElementById("data").textContent);
  const byColumn = {};
  theodolite.data.measures.forEach(({ columns }) => columns.forEach(([name, label, meaning, href, bounded, limits]) => (byColumn[name] = { name, label, meaning, href, bounded, limits })));
  theodolite.measure = (column) => byColumn[column] || { name: column, label: column, meaning: "", href: "" };

  theodolite.startTheme(document.getElementById("theme"));
  theodolite.startAddress();
  // A page of series or pictures only has no survey to choose.
  if (theodolite.data.surveys.some((survey) => survey.layers.length)) theodolite.startToolbar(document.getElementById("toolbar"));
  theodolite.startSections();
  // The link of a finding goes to a chart and chooses the measure of the finding.
  document.querySelectorAll("[data-measure], a[data-survey]").forEach((link) =>
    link.addEventListener("click", () => {
      const { measure, survey, series, layer } = link.dataset;
      const layers = survey ? theodolite.data.surveys[survey].layers : [];
      const at = layers.findIndex(({ name }) => name === layer);
      theodolite.choose({
        ...(measure ? { measure } : {}), ...(survey ? { survey: Number(survey) } : {}), ...(at >= 0 ? { layer: at } : {}), ...(series ? { series: Number(series) } : {}),
      });
    }),
  );
  // Of several surveys, the findings of the chosen one are shown.
  const showFindings = () => document.querySelectorAll("[data-shows]").forEach((one) => (one.hidden = Number(one.dataset.shows) !== theodolite.state.survey));
  theodolite.onChange(showFindings);
  showFindings();
  // A picture is saved from its image element, so that the page has its bytes once.
  document.querySelectorAll("[data-save]").forEach((link) => {
    link.download = link.dataset.save;
    link.href = link.closest("figure").querySelector("img").src;
  });
  document.documentElement.dataset.ready = "yes";
})();

// The light and the dark theme: colours are CSS variables, which the charts use too.
(() => {
  const order = ["auto", "light", "dark"];
  const listeners = [];
  let styles = null;

  theodolite.colour = (name) => {
    styles = styles || getComputedStyle(document.documentElement);
    return styles.getPropertyValue(`--${name}`).trim();
  };
  theodolite.onTheme = (listener) => listeners.push(listener);

  // Colour, dash and marker of a line, distinguishable without colour. A population has the same style on every chart.
  const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid"];
  const signs = ["circle", "square-open", "x-thin-open", "diamond-open", "triangle-up", "circle-open", "square"];
  const known = ["all", "without-first", "without-massive", "without-sinks"];
  theodolite.lineStyle = (place) => ({
    colour: theodolite.colour(`c${place % 7}`),
    dash: dashes[place % 7],
    sign: signs[place % 7],
  });
  theodolite.populationStyle = (population, populations) =>
    theodolite.lineStyle(known.includes(population) ? known.indexOf(population) : known.length + populations.indexOf(population));

  theodolite.layout = (more = {}, traces = [], width = undefined) => {
    const axis = {
      gridcolor: theodolite.colour("hair"), linecolor: theodolite.colour("quiet"), zeroline: false, ticks: "outside",
      tickcolor: theodolite.colour("quiet"), automargin: true, title: { standoff: 8 }, ticklen: 4, exponentformat: "SI", minexponent: 4,
    };
    const { xaxis, yaxis, ...rest } = more;
    return {
      paper_bgcolor: theodolite.colour("card"), plot_bgcolor: theodolite.colour("card"),
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: theodolite.colour("ink") },
      margin: { l: 56, r: 16, t: 12, b: 44 }, hovermode: "closest", dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      hoverlabel: { bgcolor: theodolite.colour("card"), bordercolor: theodolite.colour("quiet"), font: { color: theodolite.colour("ink") }, align: "left" },
      xaxis: { ...axis, ...theodolite.withTicks(xaxis, () => traces.flatMap(({ x }) => Array.from(x || [])), width) },
      yaxis: { ...axis, ...theodolite.withTicks(yaxis, () => traces.flatMap(({ y }) => Array.from(y || []))) }, ...rest,
    };
  };

  const changed = () => {
    styles = null;
    listeners.forEach((listener) => listener());
  };
  // Paper is light: charts have the light theme while the page is printed. Returns whether the colours changed.
  let onScreen = null; // the theme of the screen while the page is printed
  theodolite.usePaperColours = (paper) => {
    const root = document.documentElement;
    const before = theodolite.colour("card");
    if (paper) [onScreen, root.dataset.theme] = [root.dataset.theme, "light"];
    else if (onScreen) root.dataset.theme = onScreen;
    else delete root.dataset.theme;
    styles = null;
    return theodolite.colour("card") !== before;
  };
  theodolite.startTheme = (button) => {
    let chosen = "auto";
    const label = () => {
      button.textContent = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" }[chosen];
    };
    button.addEventListener("click", () => {
      chosen = order[(order.indexOf(chosen) + 1) % order.length];
      if (chosen === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = chosen;
      label();
      changed();
    });
    label();
    button.hidden = false;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  };
})();

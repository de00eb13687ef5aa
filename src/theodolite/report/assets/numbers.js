// Number formats.
(() => {
  const grouped = new Intl.NumberFormat("en");

  theodolite.formatNumber = (value, digits = 4) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text = size >= 1e6 || size < 1e-3 ? value.toExponential(digits - 1) : grouped.format(Number(value.toPrecision(digits)));
    return text.replace("-", "−");
  };
  theodolite.formatCount = (value) => grouped.format(value);
  theodolite.pluralize = (value, one, many = `${one}s`) => `${theodolite.formatCount(value)} ${value === 1 ? one : many}`;
})();

// Number formats, as in text.py.
(() => {
  const grouped = new Intl.NumberFormat("en");
  const raised = (power) => [...String(power)].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign])).join("");
  const powerOfTen = (value, digits) => {
    const [mantissa, power] = value.toExponential(digits - 1).split("e");
    const shown = Number(mantissa) === 1 ? "" : `${Number(mantissa)}×`;
    return `${shown}10${raised(Number(power))}`.replace("-", "−");
  };

  theodolite.formatNumber = (value, digits = 4) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e7 || size < 1e-3) return powerOfTen(value, Math.min(digits, 3));
    return grouped.format(Number(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size)))))).replace("-", "−");
  };
  // The label of a tick, as format_tick in text.py: 0.25, 5000, 20k, 3M, 10⁻⁴.
  theodolite.formatTick = (value) => {
    const size = Math.abs(value);
    if (size > 0 && (size < 1e-3 || size >= 1e15)) return powerOfTen(value, 3);
    const [unit, letter] = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]].find(([from]) => size >= Math.max(from, 1e4)) || [1, ""];
    return `${Number((value / unit).toPrecision(6))}${letter}`.replace("-", "−");
  };
  theodolite.formatCount = (value) => grouped.format(value);
  theodolite.pluralize = (value, one, many = `${one}s`) => `${theodolite.formatCount(value)} ${value === 1 ? one : many}`;
})();

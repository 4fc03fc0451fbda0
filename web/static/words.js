// How values are written for a reader, as the server writes them.

export const clock = (ms) => new Date(ms).toISOString().slice(11, 19);

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 100) return value.toFixed(0) + " s";
  if (value >= 1) return value.toFixed(2) + " s";
  if (value >= 1e-3) return Number((value * 1e3).toPrecision(3)) + " ms";
  return (value * 1e6).toFixed(0) + " µs";
}

const count = (value) => (Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3))));
const share = (value) => (100 * value).toFixed(value === 0 || Math.abs(value) >= 0.1 ? 0 : 1) + " %";

// A value of a chart in the unit that its values name (web/drawing/units.py).
export function written(value, unit) {
  if (value === null || value === undefined) return "–";
  const words = { share, count, rate: (rate) => count(rate) + " /s" }[unit] ?? seconds;
  return words(value);
}

// A table of text: a head of column names, rows of cells. All but the first of each row are numbers.
export function tableOf(head, rows) {
  const table = document.createElement("table");
  const row = (cells, name) => {
    const made = document.createElement("tr");
    cells.forEach((text, place) => {
      const cell = document.createElement(name);
      cell.textContent = text;
      if (place) cell.className = "number";
      made.append(cell);
    });
    return made;
  };
  table.createTHead().append(row(head, "th"));
  table.createTBody().append(...rows.map((cells) => row(cells, "td")));
  return table;
}

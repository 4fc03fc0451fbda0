// How values are written for a reader, as the server writes them.

export const clock = (ms) => new Date(ms).toISOString().slice(11, 19);

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 100) return value.toFixed(0) + " s";
  if (value >= 1) return value.toFixed(2) + " s";
  if (value >= 1e-3) return Number((value * 1e3).toPrecision(3)) + " ms";
  return (value * 1e6).toFixed(0) + " µs";
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

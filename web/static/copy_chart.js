// Copies a chart: its values as CSV or JSON, or the question to the API that answers them as a command for a terminal.

import { put } from "./clipboard.js";

// A chart's values as a table, whichever way the server wrote them beside the drawing.
function tableOf(figure) {
  const values = figure.querySelector("[data-values]")?.dataset.values;
  if (values) {
    const { times, lines } = JSON.parse(values);
    return { head: ["time", ...lines.map(({ name }) => name)], rows: times.map((time, place) => [time, ...lines.map(({ y }) => y[place])]) };
  }
  const map = figure.dataset.heatMap;
  if (map) {
    const { start, step_s: step, edges, cells } = JSON.parse(map);
    const time = (column) => new Date(Date.parse(start) + 1000 * step * column).toISOString();
    const rows = cells.flatMap(([column, row, counts]) => counts.map((count, place) => [time(column), edges[row + place], edges[row + place + 1], count]));
    return { head: ["time", "above", "to", "count"], rows: rows.filter(([, , , count]) => count) };
  }
  return JSON.parse(figure.querySelector("[data-rows]")?.dataset.rows ?? '{"head": [], "rows": []}');
}

const cell = (value) => (value === null ? "" : /[",\n]/.test(value) ? '"' + String(value).replaceAll('"', '""') + '"' : String(value));

const TEXTS = {
  csv: (figure) => {
    const { head, rows } = tableOf(figure);
    return [head, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
  },
  json: (figure) => {
    const { head, rows } = tableOf(figure);
    return JSON.stringify(rows.map((row) => Object.fromEntries(row.map((value, place) => [head[place], value]))), null, 1);
  },
  call: (figure) => {
    const address = new URL(figure.querySelector("[data-call]").dataset.call, window.location.origin);
    return 'curl -H "Authorization: Bearer $TOKEN" \'' + address.href.replaceAll("'", "%27") + "'";
  },
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy-as]");
  if (!button) return;
  const said = button.closest(".copy").querySelector(".copied");
  try {
    await put(TEXTS[button.dataset.copyAs](button.closest("figure")));
    said.textContent = "copied";
  } catch (error) {
    said.textContent = "not copied: " + error.message;
  }
});

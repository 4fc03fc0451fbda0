// Figures whose values are a table behind a button: {"head", "rows"} beside the drawing, as it is copied, too. What
// stands under "time" is a moment; numbers are in the unit that the figure names (words.js), text stands as it is.

import { keepDrawn, withTable } from "./drawn.js";
import { tableOf, timeCell, timeHead, written } from "./words.js";

const ATTRIBUTE = "data-tabled";

function table(figure) {
  const { head, rows } = JSON.parse(figure.querySelector("[data-rows]").dataset.rows);
  const at = head.indexOf("time");
  const times = at < 0 ? [] : rows.map((row) => Date.parse(row[at]));
  const spanMs = times.length ? times.at(-1) - times[0] : 0;
  const cell = (value, column, row) => (column === at ? timeCell(times[row], spanMs) : typeof value === "string" ? value : written(value, figure.getAttribute(ATTRIBUTE)));
  const cells = rows.map((values, row) => values.map((value, column) => cell(value, column, row)));
  // As of other charts over time, the newest first.
  return tableOf(head.map((name, column) => (column === at ? timeHead : name.replaceAll("_", " "))), at < 0 ? cells : cells.reverse());
}

keepDrawn(ATTRIBUTE, (figure) => {
  if (figure.querySelector("[data-table]")) withTable(figure, () => table(figure));
});

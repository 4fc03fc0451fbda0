// The cursor of charts, one moment for all that share an axis (moment.js): by pointer or arrow keys it reads values out,
// by a click or Enter it asks for the requests behind them, by dragging it chooses a part. Each chart's values are also a table.

import { follow, momentOf, moveTo } from "./moment.js";
import { HAPPENED, happenedAt, stamp, tableOf, timeCell, timeHead, written } from "./words.js";

const SVG_DRAG_PX = 6;

const cursorOf = (plot) => plot.querySelector(".cursor");

// What the server wrote beside the drawing; nothing before the first drawing.
function valuesOf(plot) {
  const cursor = cursorOf(plot);
  if (!cursor) return null;
  const text = cursor.dataset.values;
  if (plot.valuesText !== text) {
    plot.valuesText = text;
    plot.values = JSON.parse(text);
    plot.values.at = plot.values.times.map((time) => Date.parse(time));
    plot.values.from = Date.parse(plot.values.start);
    plot.values.to = Date.parse(plot.values.end);
  }
  return plot.values;
}

function nearest(values, ms) {
  let best = -1;
  values.at.forEach((at, place) => { if (best < 0 || Math.abs(at - ms) < Math.abs(values.at[best] - ms)) best = place; });
  return best;
}

const readOut = (values, place) => stamp(values.at[place], values.to - values.from) + ": " + values.lines.map(({ name, y }) => name + " " + written(y[place], values.unit)).join(", ");

// Draws the shared cursor into a plot, and its values below it.
export function show(plot) {
  const values = valuesOf(plot);
  if (!values) return;
  const moment = momentOf(plot);
  const place = moment === null ? -1 : nearest(values, moment);
  const line = plot.querySelector(".crosshair");
  const readout = plot.querySelector(".readout");
  line.setAttribute("visibility", place < 0 ? "hidden" : "visible");
  readout.textContent = place < 0 ? "" : readOut(values, place);
  if (place < 0) return;
  const x = (100 * (values.at[place] - values.from)) / (values.to - values.from) + "%";
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
  const cursor = cursorOf(plot);
  cursor.setAttribute("aria-valuenow", String(place));
  cursor.setAttribute("aria-valuetext", readOut(values, place));
}

// After a new drawing: the cursor, the open table, and how many points there are.
export function restore(plot) {
  const values = valuesOf(plot);
  plot.dataset.points = String(values.lines.reduce((sum, { y }) => sum + y.filter((one) => one !== null).length, 0));
  show(plot);
  fillTable(plot);
}

function fillTable(plot) {
  const part = plot.parentElement.querySelector(".values");
  const values = valuesOf(plot);
  if (part.hidden || !values) return;
  const marked = values.marks.length > 0;
  const happened = happenedAt(values.at, values.marks);
  const rows = values.at.map((at, place) => [timeCell(at, values.to - values.from), ...values.lines.map(({ y }) => written(y[place], values.unit)), ...(marked ? [happened[place]] : [])]);
  part.replaceChildren(tableOf([timeHead, ...values.lines.map(({ name }) => name), ...(marked ? [HAPPENED] : [])], rows.reverse()));
}

function momentAt(event, plot) {
  const values = valuesOf(plot);
  const box = cursorOf(plot).getBoundingClientRect();
  const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  return values.from + share * (values.to - values.from);
}

// The line at `place` that is nearest to a height (0 at the top of the plot, 1 at its foot); the last one without.
function lineAt(values, place, height) {
  const known = values.lines.map(({ y }) => y[place]).map((value, line) => ({ value, line })).filter(({ value }) => value !== null);
  if (height === null) return known.at(-1);
  const off = ({ value }) => Math.abs(1 - value / values.top - height);
  return known.sort((one, other) => off(one) - off(other))[0];
}

export function listen(plot, { zoom, reset, showRequests }) {
  follow(plot, () => show(plot));
  let dragged = null;
  const onCursor = (event) => valuesOf(plot) && event.target === cursorOf(plot);
  const ask = (place, height) => {
    const values = valuesOf(plot);
    const found = place < 0 ? undefined : lineAt(values, place, height);
    const { metric, behind } = cursorOf(plot).dataset;
    if (found) showRequests(plot, { metric, behind, time: values.times[place], step: values.step_s, value: found.value });
  };
  const choose = (from, to) => {
    const chosen = plot.querySelector(".chosen");
    const values = valuesOf(plot);
    const share = (ms) => (100 * (ms - values.from)) / (values.to - values.from);
    chosen.setAttribute("x", share(Math.min(from, to)) + "%");
    chosen.setAttribute("width", Math.abs(share(to) - share(from)) + "%");
  };
  plot.addEventListener("pointerdown", (event) => {
    if (!onCursor(event) || event.button) return;
    dragged = { from: momentAt(event, plot), x: event.clientX };
    cursorOf(plot).setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", (event) => {
    if (!onCursor(event)) return;
    moveTo(plot, momentAt(event, plot));
    if (dragged) choose(dragged.from, momentOf(plot));
  });
  plot.addEventListener("pointerup", (event) => {
    if (!dragged || !onCursor(event)) return;
    const [from, to] = [dragged.from, momentAt(event, plot)].sort((one, other) => one - other);
    const wide = Math.abs(event.clientX - dragged.x) > SVG_DRAG_PX;
    dragged = null;
    choose(from, from);
    if (wide) {
      zoom(new Date(from).toISOString(), new Date(to).toISOString());
      return;
    }
    const box = cursorOf(plot).getBoundingClientRect();
    ask(nearest(valuesOf(plot), to), (event.clientY - box.top) / box.height);
  });
  plot.addEventListener("pointerleave", () => { if (!dragged) moveTo(plot, null); });
  plot.addEventListener("pointercancel", () => { dragged = null; });
  plot.addEventListener("dblclick", (event) => { if (onCursor(event)) reset(); });
  plot.addEventListener("keydown", (event) => {
    if (!onCursor(event)) return;
    const values = valuesOf(plot);
    const last = values.at.length - 1;
    const moment = momentOf(plot);
    const now = moment === null ? last + 1 : nearest(values, moment);
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 10, PageDown: now + 10, Home: 0, End: last }[event.key];
    if (to !== undefined && last >= 0) moveTo(plot, values.at[Math.min(Math.max(to, 0), last)]);
    else if (event.key === "Enter" && moment !== null) ask(nearest(values, moment), null);
    else if (event.key === "Escape") moveTo(plot, null);
    else return;
    event.preventDefault();
  });
  const button = plot.parentElement.querySelector("[data-table]");
  button.addEventListener("click", () => {
    const part = plot.parentElement.querySelector(".values");
    part.hidden = !part.hidden;
    button.setAttribute("aria-expanded", String(!part.hidden));
    fillTable(plot);
  });
}

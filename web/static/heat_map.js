// Heat maps: one pixel a cell, stretched by the style. A cursor reads cells out, by pointer or arrow keys; a box is
// chosen by dragging or by Enter at two corners, and told as "tailwright:box" with {start, end, low, high}: moments in
// RFC 3339 and seconds of latency.

import { coloursOf, dataOf, keepDrawn, withTable } from "./drawn.js";
import { follow, momentOf, moveTo } from "./moment.js";
import { HAPPENED, clock, happenedAt, seconds, stamp, tableOf, timeCell, timeHead } from "./words.js";

const ATTRIBUTE = "data-heat-map";
const DRAG_PX = 6;
const states = new WeakMap(); // For each figure its cursor's cell, the corner where a box began, and the box last told.

// What the server wrote, with counts by column as a lookup.
function mapOf(figure) {
  const map = dataOf(figure, ATTRIBUTE);
  map.byColumn ??= new Map(map.cells.map(([column, row, counts]) => [column, { row, counts }]));
  const { width, height } = figure.querySelector("canvas");
  return { ...map, from: Date.parse(map.start), columns: width, rows: height };
}

const countAt = (map, { column, row }) => map.byColumn.get(column)?.counts[row - map.byColumn.get(column).row] ?? 0;
const momentAt = (map, column) => map.from + 1000 * map.step_s * column;
const spanOf = (map) => 1000 * map.step_s * map.columns;
const words = (map, cell) =>
  stamp(momentAt(map, cell.column), spanOf(map)) + ", " + seconds(map.edges[cell.row]) + " to " + seconds(map.edges[cell.row + 1]) + ": " + countAt(map, cell) + " " + map.noun;

function paint(figure) {
  const map = mapOf(figure);
  const colours = coloursOf(figure);
  const context = figure.querySelector("canvas").getContext("2d");
  const image = context.createImageData(map.columns, map.rows);
  for (const [column, lowest, counts] of map.cells) {
    counts.forEach((count, place) => {
      if (!count || column >= map.columns) return;
      let level = map.levels.length - 1;
      while (level && map.levels[level] > count) level--;
      image.data.set([...colours[level], 255], 4 * ((map.rows - 1 - lowest - place) * map.columns + column));
    });
  }
  context.putImageData(image, 0, 0);
  figure.dataset.cells = String(map.cells.reduce((sum, [, , counts]) => sum + counts.filter(Boolean).length, 0));
}

// The corners of a box that was told, wherever the data have moved since.
function cornersOf(map, { start, end, low, high }) {
  const column = (moment) => (Date.parse(moment) - map.from) / (1000 * map.step_s);
  const row = (edge) => map.edges.filter((one) => one < edge).length;
  return [{ column: column(start), row: row(low) }, { column: column(end) - 1, row: row(high) - 1 }];
}

function place(rect, map, one, other) {
  const [left, right] = [one.column, other.column].sort((a, b) => a - b);
  const [low, high] = [one.row, other.row].sort((a, b) => a - b);
  rect.setAttribute("x", (100 * left) / map.columns + "%");
  rect.setAttribute("width", (100 * (right + 1 - left)) / map.columns + "%");
  rect.setAttribute("y", (100 * (map.rows - 1 - high)) / map.rows + "%");
  rect.setAttribute("height", (100 * (high + 1 - low)) / map.rows + "%");
}

// Draws cursor, box and the moment of the other drawings.
function show(figure) {
  const map = mapOf(figure);
  const { cell, corner, kept } = states.get(figure);
  const [at, chosen, line] = [".at", ".chosen", ".crosshair"].map((name) => figure.querySelector(name));
  const moment = momentOf(figure);
  const share = moment === null ? -1 : (moment - map.from) / (1000 * map.step_s * map.columns);
  line.setAttribute("visibility", share >= 0 && share <= 1 ? "visible" : "hidden");
  line.setAttribute("x1", 100 * share + "%");
  line.setAttribute("x2", 100 * share + "%");
  at.setAttribute("visibility", cell ? "visible" : "hidden");
  if (cell) place(at, map, cell, cell);
  if (corner && cell) place(chosen, map, corner, cell);
  else if (kept) place(chosen, map, ...cornersOf(map, kept));
  chosen.setAttribute("visibility", (corner && cell) || kept ? "visible" : "hidden");
  figure.querySelector(".readout").textContent = cell ? words(map, cell) + (corner ? "; a box begins at " + clock(momentAt(map, corner.column)) + ": Enter ends it" : "") : "";
}

function move(figure, cell) {
  states.get(figure).cell = cell;
  const map = mapOf(figure);
  moveTo(figure, cell && momentAt(map, cell.column + 0.5));
  show(figure);
}

function choose(figure, one, other) {
  const map = mapOf(figure);
  const [left, right] = [one.column, other.column].sort((a, b) => a - b);
  const [low, high] = [one.row, other.row].sort((a, b) => a - b);
  const moment = (column) => new Date(momentAt(map, column)).toISOString();
  const detail = { start: moment(left), end: moment(right + 1), low: map.edges[low], high: map.edges[high + 1] };
  Object.assign(states.get(figure), { corner: null, kept: detail });
  show(figure);
  figure.dispatchEvent(new CustomEvent("tailwright:box", { bubbles: true, detail }));
}

function cellAt(event, figure) {
  const map = mapOf(figure);
  const box = figure.querySelector(".cursor").getBoundingClientRect();
  const within = (share, most) => Math.min(Math.max(Math.floor(share * most), 0), most - 1);
  return {
    column: within((event.clientX - box.left) / box.width, map.columns),
    row: map.rows - 1 - within((event.clientY - box.top) / box.height, map.rows),
  };
}

function table(figure) {
  const map = mapOf(figure);
  const bands = map.bands.slice(1).map((high, band) => [map.bands[band], high]);
  const total = (column, [low, high]) => {
    let sum = 0;
    for (let row = low; row < high; row++) sum += countAt(map, { column, row });
    return String(sum);
  };
  const marked = map.marks.length > 0;
  const columns = map.cells.map(([column]) => column);
  const happened = happenedAt(columns.map((column) => momentAt(map, column)), map.marks);
  const head = [timeHead, ...bands.map(([low, high]) => seconds(map.edges[low]) + " to " + seconds(map.edges[high])), ...(marked ? [HAPPENED] : [])];
  const rows = columns.map((column, place) => [timeCell(momentAt(map, column), spanOf(map)), ...bands.map((band) => total(column, band)), ...(marked ? [happened[place]] : [])]);
  return tableOf(head, rows.reverse());
}

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], PageUp: [0, 10], PageDown: [0, -10] };

function onKey(figure, event) {
  const map = mapOf(figure);
  const state = states.get(figure);
  const newest = map.cells.at(-1);
  if (!newest) return;
  const now = state.cell ?? { column: newest[0] + 1, row: newest[1] };
  const step = STEPS[event.key] ?? { Home: [-now.column, 0], End: [map.columns, 0] }[event.key];
  if (step) {
    const within = (value, most) => Math.min(Math.max(value, 0), most - 1);
    move(figure, { column: within(now.column + step[0], map.columns), row: within(now.row + step[1], map.rows) });
  } else if (event.key === "Enter" && state.cell) {
    if (state.corner) choose(figure, state.corner, state.cell);
    else {
      state.corner = state.cell;
      show(figure);
    }
  } else if (event.key === "Escape" && (state.cell || state.kept)) {
    Object.assign(state, { corner: null, kept: null });
    move(figure, null);
  } else return;
  event.preventDefault();
}

function listen(figure) {
  const cursor = figure.querySelector(".cursor");
  let dragged = null;
  cursor.addEventListener("pointerdown", (event) => {
    if (event.button || !mapOf(figure).cells.length) return;
    dragged = { cell: cellAt(event, figure), x: event.clientX, y: event.clientY };
    cursor.setPointerCapture(event.pointerId);
  });
  cursor.addEventListener("pointermove", (event) => {
    if (!mapOf(figure).cells.length) return;
    if (dragged && Math.hypot(event.clientX - dragged.x, event.clientY - dragged.y) > DRAG_PX) states.get(figure).corner = dragged.cell;
    move(figure, cellAt(event, figure));
  });
  cursor.addEventListener("pointerup", (event) => {
    const corner = dragged && states.get(figure).corner;
    dragged = null;
    if (corner) choose(figure, corner, cellAt(event, figure));
  });
  cursor.addEventListener("pointerleave", () => { if (!dragged) move(figure, null); });
  cursor.addEventListener("pointercancel", () => {
    dragged = null;
    states.get(figure).corner = null;
  });
  cursor.addEventListener("keydown", (event) => onKey(figure, event));
  follow(figure, () => show(figure));
}

keepDrawn(ATTRIBUTE, (figure) => {
  if (!states.has(figure)) {
    states.set(figure, { cell: null, corner: null, kept: null });
    listen(figure);
  }
  paint(figure);
  show(figure);
  withTable(figure, () => table(figure));
});

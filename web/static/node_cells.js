// Nodes as cells of a canvas, group below group. A cursor reads nodes out, by pointer or arrow keys; a click or Enter
// opens the node's page. How a node is, is also a shape: a cross is bad, a stroke is warn, hollow is stale or unknown.

import { coloursOf, dataOf, keepDrawn } from "./drawn.js";

const ATTRIBUTE = "data-node-cells";
const LABEL_PX = 18;
const LARGEST_PX = 18;
const SMALLEST_PX = 7;
const MOST_PX2 = 1_000_000; // About how much of a page all cells may take.
const chosen = new WeakMap(); // For each figure the place of its cursor's node; null where there is none.

// Where each group's cells stand at this width: [{ top, from, count }], cells of `size`, `across` in a row.
function layoutOf({ groups, names }, width) {
  const size = Math.min(Math.max(Math.floor(Math.sqrt(MOST_PX2 / names.length / 2)), SMALLEST_PX), LARGEST_PX);
  const across = Math.max(1, Math.floor(width / size));
  let top = 0;
  let from = 0;
  const blocks = groups.map(([name, count]) => {
    const block = { name, count, from, top: top + LABEL_PX };
    top = block.top + Math.ceil(count / across) * size + 4;
    from += count;
    return block;
  });
  return { size, across, blocks, height: top };
}

// The left upper corner of each node's cell.
function cornersOf({ size, across, blocks }) {
  return blocks.flatMap(({ top, count }) => Array.from({ length: count }, (_, place) => [(place % across) * size, top + Math.floor(place / across) * size]));
}

const SHAPES = {
  b: (context, x, y, size) => { context.moveTo(x + 2, y + 2); context.lineTo(x + size - 2, y + size - 2); context.moveTo(x + size - 2, y + 2); context.lineTo(x + 2, y + size - 2); },
  w: (context, x, y, size) => { context.moveTo(x + 1.5, y + size / 2); context.lineTo(x + size - 1.5, y + size / 2); },
};

function paint(figure) {
  const canvas = figure.querySelector("canvas");
  if (!canvas || !figure.isConnected) return; // What is taken out has a size once more, and no style.
  const data = dataOf(figure, ATTRIBUTE);
  const width = canvas.parentElement.clientWidth;
  const layout = layoutOf(data, width);
  const dots = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * dots), Math.round(layout.height * dots)];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const style = getComputedStyle(figure);
  const context = canvas.getContext("2d");
  context.setTransform(dots, 0, 0, dots, 0, 0);
  context.clearRect(0, 0, width, layout.height);
  context.fillStyle = style.color;
  context.font = "12px " + style.fontFamily;
  layout.blocks.forEach(({ name, count, top }) => context.fillText(name + ": " + count, 0, top - 5, width));
  const side = layout.size - 1;
  const corners = cornersOf(layout);
  const hollow = (place) => data.levels[place] < 0 || data.kinds[place] === "s" || data.kinds[place] === "u";
  coloursOf(figure).forEach((rgb, level) => {
    context.fillStyle = "rgb(" + rgb + ")";
    context.strokeStyle = context.fillStyle;
    corners.forEach(([x, y], place) => {
      if (data.levels[place] !== level) return;
      if (hollow(place)) context.strokeRect(x + 1, y + 1, side - 2, side - 2);
      else context.fillRect(x, y, side, side);
    });
  });
  context.strokeStyle = style.color;
  corners.forEach(([x, y], place) => { if (data.levels[place] < 0) context.strokeRect(x + 1, y + 1, side - 2, side - 2); });
  // A shape lies on its cell in the card's colour, with an edge in the text's, so that it is seen on every colour.
  for (const [colour, lineWidth] of [[style.color, 3], [style.backgroundColor, 1.5]]) {
    context.strokeStyle = colour;
    context.lineWidth = lineWidth;
    context.beginPath();
    corners.forEach(([x, y], place) => SHAPES[data.kinds[place]]?.(context, x, y, side));
    context.stroke();
  }
  context.lineWidth = 1;
  const at = chosen.get(figure) ?? null;
  if (at !== null && corners[at]) {
    context.strokeStyle = style.color;
    context.lineWidth = 2;
    context.strokeRect(corners[at][0] - 1, corners[at][1] - 1, side + 2, side + 2);
    context.lineWidth = 1;
  }
  figure.dataset.cells = String(corners.length);
}

// The reader's node, with a link: what the pointer or the arrow keys are on.
function show(figure, place) {
  chosen.set(figure, place);
  paint(figure);
  const data = dataOf(figure, ATTRIBUTE);
  const readout = figure.querySelector(".readout");
  if (place === null || !data.names[place]) {
    readout.replaceChildren();
    return;
  }
  const link = document.createElement("a");
  link.href = hrefOf(data, place);
  link.textContent = data.names[place];
  const group = blocksOf(figure).blocks.find(({ from, count }) => place < from + count).name;
  const value = data.words[place] ? data.value + " " + data.words[place] : "no " + data.value + " told";
  readout.replaceChildren(link, ": " + value + ", " + data.state_words[data.states[place]] + ", in " + group);
}

const hrefOf = (data, place) => "/nodes/" + encodeURIComponent(data.names[place]);
const blocksOf = (figure) => layoutOf(dataOf(figure, ATTRIBUTE), figure.querySelector(".cells").clientWidth);

function placeAt(figure, event) {
  const box = figure.querySelector("canvas").getBoundingClientRect();
  const { size, across, blocks } = blocksOf(figure);
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const block = blocks.findLast(({ top }) => y >= top);
  if (!block || x >= across * size) return null;
  const within = Math.floor((y - block.top) / size) * across + Math.floor(x / size);
  return within < block.count ? block.from + within : null;
}

// One row up or down, within a group or into the next one; the same place where there is none.
function nextRow(figure, place, step) {
  const { across, blocks } = blocksOf(figure);
  const at = blocks.findIndex(({ from, count }) => place < from + count);
  const within = place - blocks[at].from;
  const row = Math.floor(within / across) + step;
  const rows = Math.ceil(blocks[at].count / across);
  const block = row < 0 || row >= rows ? blocks[at + step] : blocks[at];
  if (!block) return place;
  const last = Math.ceil(block.count / across) - 1;
  const wanted = block === blocks[at] ? row : step > 0 ? 0 : last;
  return block.from + Math.min(wanted * across + (within % across), block.count - 1);
}

function onKey(figure, event) {
  const data = dataOf(figure, ATTRIBUTE);
  const last = data.names.length - 1;
  const place = chosen.get(figure);
  const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  if (event.key in steps) show(figure, place === null ? 0 : Math.min(Math.max(place + steps[event.key], 0), last));
  else if (event.key === "ArrowUp" || event.key === "ArrowDown") show(figure, place === null ? 0 : nextRow(figure, place, event.key === "ArrowUp" ? -1 : 1));
  else if (event.key === "Enter" && place !== null) window.location.assign(hrefOf(data, place));
  else if (event.key === "Escape") show(figure, null);
  else return;
  event.preventDefault();
}

function listen(figure) {
  const canvas = figure.querySelector("canvas");
  canvas.addEventListener("pointermove", (event) => {
    const place = placeAt(figure, event);
    if (place !== null && place !== chosen.get(figure)) show(figure, place);
  });
  canvas.addEventListener("click", (event) => {
    const place = placeAt(figure, event);
    if (place !== null) window.location.assign(hrefOf(dataOf(figure, ATTRIBUTE), place));
  });
  canvas.addEventListener("keydown", (event) => onKey(figure, event));
  new ResizeObserver(() => paint(figure)).observe(figure.querySelector(".cells"));
  // A canvas whose size is set anew is empty.
  new MutationObserver(() => paint(figure)).observe(canvas, { attributeFilter: ["width", "height"] });
}

keepDrawn(ATTRIBUTE, (figure) => {
  if (!chosen.has(figure) && figure.querySelector("canvas")) {
    chosen.set(figure, null);
    listen(figure);
  }
  paint(figure);
});

// A ribbon shows the moment of the drawings that it shares its axis with.

import { dataOf, keepDrawn } from "./drawn.js";
import { follow, momentOf } from "./moment.js";

const ATTRIBUTE = "data-ribbon"; // Its axis: [start, end] in seconds since 1970.
const followed = new WeakSet();

function show(figure) {
  const line = figure.querySelector(".crosshair");
  if (!line) return;
  const [start, end] = dataOf(figure, ATTRIBUTE);
  const moment = momentOf(figure);
  const share = moment === null ? -1 : (moment / 1000 - start) / (end - start);
  line.setAttribute("visibility", share >= 0 && share <= 1 ? "visible" : "hidden");
  line.setAttribute("x1", 100 * share + "%");
  line.setAttribute("x2", 100 * share + "%");
}

keepDrawn(ATTRIBUTE, (figure) => {
  if (!followed.has(figure)) {
    followed.add(figure);
    follow(figure, () => show(figure));
  }
  show(figure);
});

// What a reader does in a page's charts: a part that is chosen by dragging, and the requests behind a point, are
// addresses, so that a link shows the same and the browser's "back" is one step back.

import { listen, restore } from "./cursor.js";

// Parameters of pages with charts that mean nothing elsewhere.
const OWN = ["metric", "tail", "box", "scale", "charts", "against"];

function goTo(path, changes, without = []) {
  const url = new URL(path, window.location.origin);
  url.search = window.location.search;
  without.forEach((name) => url.searchParams.delete(name));
  for (const [name, value] of Object.entries(changes)) url.searchParams.set(name, value);
  window.location.assign(url);
}

const zoom = (from, to) => goTo(window.location.pathname, { from, to });

function reset() {
  const url = new URL(window.location.href);
  ["from", "to"].forEach((name) => url.searchParams.delete(name));
  window.location.assign(url);
}

// The requests behind a point of a chart: those of its step, at least its value less what a quantile may be off by.
const QUANTILE_ERROR = 0.022;

function showRequests(plot, { metric: shown, behind, time, step, value }) {
  const to = new Date(Date.parse(time) + 1000 * step).toISOString();
  const least = behind === shown ? { min: String(Number((value / (1 + QUANTILE_ERROR)).toPrecision(6))) } : {};
  goTo("/requests", { from: time, to, metric: behind, ...least, order: "slowest" }, OWN);
}

function drawnIn(root) {
  for (const cursor of root.querySelectorAll(".cursor[data-values]")) {
    const plot = cursor.closest("[data-part]");
    if (!plot.dataset.listening) {
      plot.dataset.listening = "yes";
      listen(plot, { zoom, reset, showRequests });
    }
    restore(plot);
  }
}

drawnIn(document);
for (const brought of ["htmx:after:swap", "tailwright:view"]) document.addEventListener(brought, () => drawnIn(document));

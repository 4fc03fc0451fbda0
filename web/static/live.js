// Keeps a page live: refreshes each [data-live] part alone while the page is visible.
// A part that cannot be refreshed keeps its last content and says since when.

import { ask, fresh, tell } from "./freshness.js";
import { morph } from "./morph.js";

const timers = new Map();
const parts = () => document.querySelectorAll("[data-live]");
const everyS = (part) => Number(part.dataset.every || 2);

// How long an answer may take before the part counts as stale: one period, so that stale is said within two.
export const patienceS = (periodS) => Math.min(Math.max(periodS, 4), 8);

// Refresh now, whenever the next time would have been; `data-live` may have changed.
export async function refresh(part) {
  window.clearTimeout(timers.get(part));
  const url = part.dataset.live;
  try {
    if (!document.hidden) {
      const { text, asOf } = await ask(url, part, patienceS(everyS(part)));
      if (url !== part.dataset.live) return;
      morph(part, text);
      fresh(part, asOf);
      part.dataset.refreshed = String(Number(part.dataset.refreshed || 0) + 1);
    }
  } catch (error) {
    if (url !== part.dataset.live) return;
    tell(part, error.message);
  }
  later(part);
}

function later(part) {
  window.clearTimeout(timers.get(part));
  timers.set(part, window.setTimeout(() => refresh(part), 1000 * everyS(part)));
}

parts().forEach(later);
// A page that was hidden is as old as it says; it catches up at once.
document.addEventListener("visibilitychange", () => { if (!document.hidden) parts().forEach(refresh); });

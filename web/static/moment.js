// One moment for all drawings that share an axis: those of a [data-shared-axis] container, or of the page without one.

const following = new Map(); // Each drawing's element, and how it shows the moment.
const moments = new WeakMap();
const sharing = (element) => element.closest("[data-shared-axis]") ?? document.documentElement;

// Milliseconds since 1970; null where no cursor is.
export const momentOf = (element) => moments.get(sharing(element)) ?? null;

export function follow(element, show) {
  following.set(element, show);
}

export function moveTo(element, ms) {
  moments.set(sharing(element), ms);
  for (const [other, show] of [...following]) {
    if (!other.isConnected) following.delete(other);
    else if (sharing(other) === sharing(element)) show();
  }
}

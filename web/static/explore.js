// Explore: a box on the heat map is explained, and all charts are asked for, by an address of their own.

function goTo(changes, from = window.location.href) {
  const url = new URL(from, window.location.origin);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  window.location.assign(url);
}

// One that is drawn on the other of two heat maps is explained among that one's requests.
document.addEventListener("tailwright:box", ({ target, detail: { start, end, low, high } }) =>
  goTo({ box: [start, end, low, high].join(",") }, target.dataset.explained || window.location.href));

// The server sends the other charts only to who wants to see them. (A toggle is told to its element alone.)
document.addEventListener("toggle", ({ target: more }) => {
  if (more.id === "more-charts" && more.open !== more.hasAttribute("data-shown")) goTo({ charts: more.open ? "all" : null });
}, true);

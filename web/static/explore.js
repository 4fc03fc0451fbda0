// Explore: a box on the heat map is explained, and all charts are asked for, by an address of their own.

function goTo(changes) {
  const url = new URL(window.location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  window.location.assign(url);
}

document.addEventListener("tailwright:box", ({ detail: { start, end, low, high } }) => goTo({ box: [start, end, low, high].join(",") }));

// The server sends the other charts only to who wants to see them.
const more = document.getElementById("more-charts");
more?.addEventListener("toggle", () => {
  if (more.open !== more.hasAttribute("data-shown")) goTo({ charts: more.open ? "all" : null });
});

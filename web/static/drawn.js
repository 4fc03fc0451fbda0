// What drawings on a canvas share: colours by the legend, drawing anew when data or theme changed, a table on demand.

// The legend's colours as [red, green, blue]: what the theme makes of the tokens, only the style knows.
export const coloursOf = (root) =>
  [...root.querySelectorAll(".scale i")].map((swatch) => getComputedStyle(swatch).backgroundColor.match(/[\d.]+/g).slice(0, 3).map(Number));

// Calls draw(root) for every element with `attribute`, now, when it comes or the stream brings it anew, when its data change,
// and on another theme.
export function keepDrawn(attribute, draw) {
  const all = () => document.querySelectorAll("[" + attribute + "]").forEach((root) => draw(root));
  new MutationObserver((changes) => {
    const changed = changes.some(({ type, addedNodes }) => type === "attributes" || [...addedNodes].some((node) => node.querySelector?.("[" + attribute + "]") || node.matches?.("[" + attribute + "]")));
    if (changed) all();
  }).observe(document.documentElement, { subtree: true, childList: true, attributes: true, attributeFilter: [attribute, "data-theme"] });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) window.matchMedia(query).addEventListener("change", all);
  document.addEventListener("htmx:after:swap", all);
  all();
}

// Parsed once for each text.
const parsed = new WeakMap();
export function dataOf(root, attribute) {
  const text = root.getAttribute(attribute);
  if (parsed.get(root)?.text !== text) parsed.set(root, { text, data: JSON.parse(text) });
  return parsed.get(root).data;
}

// The button shows and hides the figure's values; `table` makes them when they are wanted. What a reader opened stays
// open: a part that is brought anew comes with it closed.
const opened = new WeakSet();
export function withTable(figure, table) {
  const button = figure.querySelector("[data-table]");
  const part = figure.querySelector(".values");
  const show = () => {
    const open = opened.has(figure);
    if (part.hidden === open) part.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (open) part.replaceChildren(table());
  };
  button.onclick = () => {
    if (!opened.delete(figure)) opened.add(figure);
    show();
  };
  show();
}

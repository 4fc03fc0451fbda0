// Brings a part of the page to new markup and keeps every element that is still wanted: focus, selection, scroll
// positions and opened details stay as the reader left them.

// Elements with the same data-key are the same thing, wherever among their siblings they stand.
const keyOf = (node) => (node.dataset ? node.dataset.key : undefined);
const alike = (one, other) => one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

export function morph(part, html) {
  const wanted = document.createElement("template");
  wanted.innerHTML = html;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  morphChildren(part, wanted.content);
  // An element that changed its place among its siblings has lost its focus on the way.
  if (focused && focused.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

function morphChildren(parent, wanted) {
  const known = new Map();
  for (const child of parent.children) if (keyOf(child)) known.set(keyOf(child), child);
  const staying = new Set([...wanted.children].map(keyOf));
  let place = parent.firstChild;
  const passOver = () => { const passed = place; place = place.nextSibling; return passed; };
  for (const next of [...wanted.childNodes]) {
    while (place && keyOf(place) && !staying.has(keyOf(place))) passOver().remove();
    const found = keyOf(next) ? known.get(keyOf(next)) : place;
    if (!found || !alike(found, next)) {
      parent.insertBefore(next, place);
      continue;
    }
    if (found === place) passOver(); else parent.insertBefore(found, place);
    morphNode(found, next);
  }
  while (place) passOver().remove();
}

function morphNode(node, wanted) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== wanted.data) node.data = wanted.data;
    return;
  }
  // Whether details stand open is the reader's choice.
  const readers = (name) => name === "open" && node.nodeName === "DETAILS";
  for (const { name } of [...node.attributes]) if (!wanted.hasAttribute(name) && !readers(name)) node.removeAttribute(name);
  for (const { name, value } of wanted.attributes) if (node.getAttribute(name) !== value && !readers(name)) node.setAttribute(name, value);
  morphChildren(node, wanted);
}

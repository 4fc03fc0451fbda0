// The palette: a field over a list that the server finds at each key. The field keeps the focus; the arrows move the
// choice (aria-activedescendant), Enter opens it.

const dialog = document.getElementById("palette");
const field = dialog?.querySelector("input");
const list = document.getElementById("hits");
const note = document.getElementById("palette-note");
let asked = null;

const options = () => [...list.querySelectorAll("[role=option]")];
const chosen = () => list.querySelector("[aria-selected=true]");

function choose(option) {
  chosen()?.setAttribute("aria-selected", "false");
  option?.setAttribute("aria-selected", "true");
  if (option) field.setAttribute("aria-activedescendant", option.id); else field.removeAttribute("aria-activedescendant");
  option?.scrollIntoView({ block: "nearest" });
}

const done = (name) => [...document.querySelectorAll('[data-action="' + name + '"]')];

async function find() {
  asked?.abort();
  asked = new AbortController();
  const query = new URLSearchParams(window.location.search);
  query.set("q", field.value);
  try {
    const answer = await fetch("/palette?" + query, { signal: asked.signal });
    if (!answer.ok) throw new Error("the service answered " + answer.status);
    list.innerHTML = await answer.text();
    // Not every page can do each thing.
    options().filter((one) => one.dataset.does && !done(one.dataset.does).length).forEach((one) => one.remove());
    const count = options().length;
    note.textContent = count ? count + (count === 1 ? " hit" : " hits") : "Nothing of that name.";
  } catch (error) {
    if (error.name === "AbortError") return;
    list.replaceChildren();
    note.textContent = "Not looked for: " + (error instanceof TypeError ? "the service does not answer" : error.message);
  }
  choose(options()[0]);
}

function open(option) {
  if (!option) return;
  dialog.close();
  if (option.dataset.does) done(option.dataset.does)[0].click();
  else window.location.assign(option.dataset.address);
}

function move(by) {
  const all = options();
  if (all.length) choose(all[(all.indexOf(chosen()) + by + all.length) % all.length]);
}

// Whether the key was the palette's own.
export function paletteKey(event) {
  if (!dialog || event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return false;
  event.preventDefault();
  show();
  return true;
}

function show() {
  if (dialog.open) return;
  document.querySelectorAll("dialog[open]").forEach((other) => other.close());
  field.value = "";
  dialog.showModal();
  find();
}

if (dialog) {
  field.addEventListener("input", find);
  field.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) { event.preventDefault(); move(by); }
    else if (event.key === "Enter") { event.preventDefault(); open(chosen()); }
  });
  list.addEventListener("click", (event) => open(event.target.closest("[role=option]")));
  // A click beside the dialog is one on itself: its content fills it.
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.querySelectorAll("[data-palette]").forEach((button) => button.addEventListener("click", show));
}

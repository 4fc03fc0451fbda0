// Keyboard shortcuts: "g" and a letter opens a page of the navigation, "/" goes to the page's search, "j" and "k" to its
// rows, "?" says which there are.
import { paletteKey } from "./palette.js";

const help = document.getElementById("keys");
const links = new Map([...document.querySelectorAll("nav a[data-go]")].map((link) => [link.dataset.go, link]));
let going = false;

const isTyping = (target) => target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.nodeName);
const isShown = (element) => element.checkVisibility();

// The page's search; where it has none, the first field of its bar.
function search() {
  const found = [...document.querySelectorAll("main [data-search]"), ...document.querySelectorAll("main [type=search], form.bar select, form.bar input")];
  return found.find(isShown);
}

// What of each row can hold the focus: itself, or its first link.
function rows() {
  const holds = (row) => (row.matches("a, button, [tabindex]") ? row : row.querySelector("a[href], button"));
  return [...document.querySelectorAll("main [data-row]")].filter(isShown).map(holds).filter(Boolean);
}

function move(by) {
  const all = rows();
  const now = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(now + by, 0), all.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

const DOES = {
  "/": () => { const field = search(); field?.focus(); field?.select?.(); },
  "j": () => move(1),
  "k": () => move(-1),
  "?": () => help.showModal(),
};

document.querySelector("[data-action=keys]")?.addEventListener("click", DOES["?"]);
document.addEventListener("keydown", (event) => {
  if (paletteKey(event)) return;
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const link = going ? links.get(event.key) : undefined;
  going = !going && event.key === "g";
  if (link) link.click();
  else if (DOES[event.key] && !going) {
    event.preventDefault();
    DOES[event.key]();
  }
});

// Keyboard shortcuts: "g" and a letter opens a page of the navigation, "?" says which there are.

const help = document.getElementById("keys");
const links = new Map([...document.querySelectorAll("nav a[data-go]")].map((link) => [link.dataset.go, link]));
let going = false;

const isTyping = (target) => target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.nodeName);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const link = going ? links.get(event.key) : undefined;
  going = !going && event.key === "g";
  if (link) link.click();
  else if (event.key === "?" && !help.open) help.showModal();
});

// Buttons that copy: [data-copy] holds the text. The button says for a moment that it was done, or why it was not.

import { put } from "./clipboard.js";

const SAID_MS = 1500;

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const before = button.dataset.words || button.textContent;
  button.dataset.words = before;
  try {
    await put(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed here";
  }
  window.setTimeout(() => { button.textContent = before; }, SAID_MS);
});

// The switch between light and dark changes the page where it is; the server remembers it for the next one.

const FOLLOWING = { auto: "light", light: "dark", dark: "auto" }; // As web/frame/themes.py has them.

function show(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const button of document.querySelectorAll("[data-action=theme]")) {
    button.value = FOLLOWING[theme];
    button.title = `Change to ${FOLLOWING[theme]}`;
    button.textContent = `Theme: ${theme}`;
  }
}

document.addEventListener("submit", async (event) => {
  const button = event.submitter;
  if (button?.dataset.action !== "theme") return;
  event.preventDefault();
  const theme = button.value;
  const said = new URLSearchParams(new FormData(event.target, button));
  show(theme);
  const answer = await fetch("/theme", { method: "POST", body: said, redirect: "manual" }).catch(() => null);
  if (answer?.type !== "opaqueredirect") window.location.reload(); // Not kept: the page is as the server has it.
});

// The bar: a choice among its fields shows it at once, without a button, and an address says only what is not usual.

const form = document.querySelector("form.bar");

function go() {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value && value !== form.elements[name]?.dataset?.usual) asked.set(name, value);
  window.location.assign(window.location.pathname + (asked.size ? "?" + asked : ""));
}

// What "local" is, only the browser knows.
function sayZone() {
  const local = form.querySelector("option[data-local]");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  local.value = zone;
  local.textContent = "local (" + zone + ")";
  if (form.elements.timezone.dataset.now === zone) form.elements.timezone.value = zone;
}

if (form) {
  const unfold = form.querySelector(".unfold");
  unfold.addEventListener("click", () => unfold.setAttribute("aria-expanded", unfold.getAttribute("aria-expanded") !== "true"));
  form.addEventListener("change", (event) => {
    // A relative range ends now.
    if (event.target.name === "from" && event.target.nodeName === "SELECT") form.elements.to.value = "now";
    go();
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); go(); });
  sayZone();
  document.addEventListener("tailwright:frame", sayZone);
}

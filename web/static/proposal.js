// A form that is checked as one types (a rollout's, a study's): what the server found wrong is a field's own state, and the address holds what is filled in.

const form = document.getElementById("proposal");
const asks = document.getElementById("proposed");
const unchecked = document.getElementById("unchecked");

function mark() {
  for (const note of form.querySelectorAll("[id^='about-']")) {
    const wrong = note.classList.contains("bad");
    note.closest(".field").classList.toggle("wrong", wrong);
    form.elements[note.id.slice("about-".length)]?.setAttribute("aria-invalid", String(wrong));
  }
  const address = document.querySelector("#checked [data-address]")?.dataset.address;
  if (address) window.history.replaceState(window.history.state, "", address);
  unchecked.hidden = true;
}

/** Whether a field is no more as the page brought it: typed into before anything listened, or filled in again by the browser. */
function touched(field) {
  if (field.options) return [...field.options].some(({ selected, defaultSelected }) => defaultSelected && !selected);
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  return "defaultValue" in field && field.value !== field.defaultValue;
}

if (form) {
  const begin = () => { if ([...form.elements].some(touched)) form.dispatchEvent(new Event("input", { bubbles: true })); };
  if (asks.hasAttribute("data-htmx-powered")) begin(); else asks.addEventListener("htmx:after:init", begin, { once: true });
  asks.addEventListener("htmx:after:swap", mark);
  asks.addEventListener("htmx:error", () => { unchecked.hidden = false; });
  asks.addEventListener("htmx:response:error", ({ detail }) => {
    if (detail.ctx.response.status !== 401) { unchecked.hidden = false; return; }
    const { pathname, search } = window.location;
    window.location.assign("/login?next=" + encodeURIComponent(pathname + search));
  });
}

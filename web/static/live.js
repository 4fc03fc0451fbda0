// Keeps a page live and says how fresh it is: one stream a page brings each part when it has changed (htmx swaps it),
// and a beat in between. "live" stands in the header only while beats come; a part that could not be refreshed says so.

const SILENCE_S = 7; // Beats come every two seconds.
const CHECKED_MS = 500;
const NO_ANSWER = "the service does not answer";

const source = document.querySelector("[data-stream]");
const header = document.getElementById("freshness");
const asOf = document.getElementById("as-of");
const troubles = new Map([...document.querySelectorAll(".trouble:not([hidden])")].map((note) => [note.dataset.of, note.textContent]));
let heardMs = Date.now();
let silent = false;
let leaving = false;

const partOf = (name) => document.getElementById("part-" + name);
const noteOf = (name) => document.querySelector('.trouble[data-of="' + name + '"]');

// What keeps a part from being refreshed, in words; nothing when it was.
function tell(name, trouble) {
  const note = noteOf(name);
  const part = partOf(name);
  if (!note || !part) return;
  if (trouble) troubles.set(name, trouble); else troubles.delete(name);
  const since = part.dataset.asOf;
  note.hidden = !trouble;
  note.textContent = trouble && (since ? "As of " + since + ", not refreshed since: " + trouble : "Nothing to show: " + trouble);
}

function sayHowFresh() {
  const [first] = troubles.values();
  const said = first ? "stale: " + first : "live";
  // Written only when it changes: a screen reader reads it out each time.
  if (header.textContent !== said) header.textContent = said;
  header.parentElement.classList.toggle("stale", troubles.size > 0);
}

const parts = () => [...document.querySelectorAll("[data-part]")].map((part) => part.dataset.part);

function fallSilent(why) {
  silent = true;
  parts().forEach((name) => tell(name, why));
  if (!parts().length) troubles.set("", why);
  sayHowFresh();
}

// The service's clock as the page's other times are written.
function clock(moment) {
  const zone = document.documentElement.dataset.timezone;
  return new Date(moment).toLocaleTimeString("en-GB", { timeZone: zone, hour12: false }) + (zone === "UTC" ? " UTC" : "");
}

function heard() {
  heardMs = Date.now();
  if (!silent) return;
  silent = false;
  troubles.clear();
  parts().forEach((name) => tell(name, ""));
  sayHowFresh();
}

function signInAgain() {
  if (leaving) return;
  const { pathname, search, hash } = window.location;
  window.location.assign("/login?next=" + encodeURIComponent(pathname + search + hash));
}

if (source) {
  source.addEventListener("beat", (event) => {
    heard();
    const { time, parts: refreshed } = JSON.parse(event.detail.data);
    const said = clock(time);
    asOf.textContent = said;
    for (const name of refreshed) {
      const part = partOf(name);
      if (!part || troubles.has(name)) continue;
      part.dataset.asOf = said;
      part.dataset.refreshed = String(Number(part.dataset.refreshed || 0) + 1);
    }
  });
  source.addEventListener("trouble", (event) => {
    heard();
    const { part, message } = JSON.parse(event.detail.data);
    tell(part, message);
    sayHowFresh();
  });
  source.addEventListener("signed-out", signInAgain);
  source.addEventListener("htmx:sse:error", (event) => { if (event.detail.status === 401) signInAgain(); });
  // The first connection is htmx's ordinary request: what refuses it comes as its answer.
  source.addEventListener("htmx:after:request", (event) => {
    const status = event.detail.ctx?.response?.status;
    if (status === 401) signInAgain();
  });
  document.querySelector('form[action="/logout"]')?.addEventListener("submit", () => { leaving = true; });
  window.addEventListener("pagehide", () => { leaving = true; });
  window.setInterval(() => {
    if (document.hidden) { heardMs = Date.now(); return; }
    if (!silent && Date.now() - heardMs > 1000 * SILENCE_S) fallSilent(NO_ANSWER);
    // A connection that never came to be is tried again; htmx itself tries one again that broke.
    if (silent && !source._htmx?.sse) source.dispatchEvent(new Event("connect"));
  }, CHECKED_MS);
}

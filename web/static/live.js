// Keeps a page live and says how fresh it is: one stream a page brings each part when it has changed (htmx swaps it),
// and a beat in between. "live" stands in the header only while beats come; a part that could not be refreshed says so.

import { ZONE, clock } from "./words.js";

const SILENCE_S = 7; // Beats come every two seconds.
const CHECKED_MS = 500;
const AGAIN_S = 2;
const NO_ANSWER = "the service does not answer";

let source = null;
// What keeps each part from being refreshed, as the service says; and why nothing at all is heard, which goes before.
const troubles = new Map();
let silence = "";
let heardMs = Date.now();
let triedMs = Date.now();
let connecting = false;
let leaving = false;
let brought = false;

const partOf = (name) => document.getElementById("part-" + name);

// Written only when it changes: a screen reader reads it out each time.
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function sayHowFresh() {
  const header = document.getElementById("freshness");
  for (const note of document.querySelectorAll(".trouble[data-of]")) {
    const trouble = silence || troubles.get(note.dataset.of) || "";
    const since = partOf(note.dataset.of)?.dataset.asOf;
    note.hidden = !trouble;
    write(note, trouble && (since ? "As of " + since + ", not refreshed since: " + trouble : "Nothing to show: " + trouble));
  }
  const [first] = silence ? [silence] : troubles.values();
  write(header, first ? "stale: " + first : "live");
  header.parentElement.classList.toggle("stale", Boolean(first));
}

// The service's clock as the page's other times are written.
const told = (time) => clock(Date.parse(time)) + (ZONE === "UTC" ? " UTC" : "");

function beat({ time, parts }) {
  heardMs = Date.now();
  silence = "";
  const said = told(time);
  document.getElementById("as-of").textContent = said;
  for (const name of parts) {
    troubles.delete(name);
    const part = partOf(name);
    if (!part) continue;
    part.dataset.asOf = said;
    part.dataset.refreshed = String(Number(part.dataset.refreshed || 0) + 1);
  }
  sayHowFresh();
}

function signInAgain() {
  if (leaving) return;
  const { pathname, search, hash } = window.location;
  window.location.assign("/login?next=" + encodeURIComponent(pathname + search + hash));
}

function watch() {
  const nowMs = Date.now();
  // A page that nobody sees has no stream, which htmx begins anew when it is seen.
  if (document.hidden || leaving) { heardMs = triedMs = nowMs; return; }
  if (!silence && nowMs - heardMs > 1000 * SILENCE_S) {
    silence = NO_ANSWER;
    sayHowFresh();
  }
  if (connecting || nowMs - triedMs < 1000 * (silence ? SILENCE_S : AGAIN_S)) return;
  triedMs = nowMs;
  if (!source.isConnected) return; // Another view is on its way.
  const open = source._htmx?.sse;
  // One that never came to be is tried again here, and one that is silent is given up: htmx itself tries again what broke.
  if (!open) source.dispatchEvent(new Event("connect"));
  else if (silence) open.reader?.cancel();
}

// htmx looks at the page in the task after its own script, whether its extension for streams has come by then or not; what
// it has looked at without, it never connects. So it is told of the stream only here, after both and after that look.
function begin() {
  source.setAttribute("hx-sse:connect", source.dataset.stream);
  window.htmx.process(source);
}

// The stream of what the page shows by now, and what kept its parts from being drawn.
function takeUp() {
  source = document.querySelector("[data-stream]");
  if (!source) return;
  heardMs = triedMs = Date.now();
  connecting = brought = false;
  troubles.clear();
  for (const { dataset } of document.querySelectorAll(".trouble[data-trouble]")) if (dataset.trouble) troubles.set(dataset.of, dataset.trouble);
  if (troubles.size) sayHowFresh();
  window.setTimeout(begin);
  source.addEventListener("beat", (event) => beat(JSON.parse(event.detail.data)));
  source.addEventListener("trouble", (event) => {
    const { part, message } = JSON.parse(event.detail.data);
    troubles.set(part, message);
    sayHowFresh();
  });
  source.addEventListener("signed-out", signInAgain);
  source.addEventListener("htmx:sse:error", (event) => { if (event.detail.status === 401) signInAgain(); });
  // Its address says what the page came with, which is no longer what it shows once anything was brought.
  source.addEventListener("htmx:sse:before:message", (event) => { if (!event.detail.message.event) brought = true; });
  source.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    if (brought) ctx.request.action = ctx.request.action.replace(/([?&])fresh=[^&]*/, "$1");
  });
  // The first connection is htmx's ordinary request: what refuses it comes as its answer.
  source.addEventListener("htmx:before:request", () => { connecting = true; });
  source.addEventListener("htmx:finally:request", () => { connecting = false; triedMs = Date.now(); });
  source.addEventListener("htmx:after:request", (event) => { if (event.detail.ctx?.response?.status === 401) signInAgain(); });
}

takeUp();
document.addEventListener("tailwright:view", takeUp);
if (source) {
  // The header, its menu and the phone's bar have a form each.
  document.addEventListener("submit", ({ target }) => { if (target.matches('form[action="/logout"]')) leaving = true; });
  window.addEventListener("pagehide", () => { leaving = true; });
  window.addEventListener("pageshow", (event) => { if (event.persisted) leaving = false; });
  window.setInterval(watch, CHECKED_MS);
}

// How fresh the page is: asks the service, and says in the header and beside each part what could not be refreshed.
// "live" stands in the header only while every part's last question was answered, or may still be answered in time.

const HANG_UP_S = 20;
const NO_ANSWER = "the service does not answer";
const troubles = new Map();
let signingOut = false;
document.querySelector('form[action="/logout"]')?.addEventListener("submit", () => { signingOut = true; });

// What the service said instead of an answer.
export class Refused extends Error {}

// The text of a good answer to `url`, and when it was given. A part without one after `patienceS` is stale from then
// on; a late answer is still taken. Throws what is to be told of the part.
export async function ask(url, part, patienceS) {
  const hangUp = new AbortController();
  const late = window.setTimeout(() => tell(part, NO_ANSWER), 1000 * patienceS);
  const dead = window.setTimeout(() => hangUp.abort(), 1000 * HANG_UP_S);
  try {
    const answer = await fetch(url, { headers: { Accept: "text/html,application/json" }, signal: hangUp.signal });
    const text = await answer.text();
    // Whoever signs out is on the way to where that leads.
    if (answer.status === 401 && !signingOut) signInAgain();
    if (!answer.ok) throw new Refused(reasonOf(answer, text));
    return { text, asOf: timeOf(answer) };
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new Error(NO_ANSWER);
  } finally {
    window.clearTimeout(late);
    window.clearTimeout(dead);
  }
}

// The part shows what the service knew at `asOf`.
export function fresh(part, asOf) {
  part.dataset.asOf = asOf;
  document.getElementById("as-of").textContent = asOf;
  tell(part, "");
}

// What keeps the part from being refreshed; nothing when it was.
export function tell(part, trouble) {
  if (trouble) troubles.set(part, trouble); else troubles.delete(part);
  const note = part.parentElement.querySelector(":scope > .trouble");
  const since = part.dataset.asOf;
  note.hidden = !trouble;
  note.textContent = trouble && (since ? "As of " + since + " UTC, not refreshed since: " + trouble : "Nothing to show: " + trouble);
  const header = document.getElementById("freshness");
  const [first] = troubles.values();
  const said = first ? "stale: " + first : "live";
  // Written only when it changes: a screen reader reads it out each time.
  if (header.textContent !== said) header.textContent = said;
  header.parentElement.classList.toggle("stale", troubles.size > 0);
}

function reasonOf(answer, text) {
  try {
    return JSON.parse(text).error.message;
  } catch {
    return "the service answered " + answer.status;
  }
}

// The service's clock, to the second, as the page's other times.
function timeOf(answer) {
  const told = new Date(answer.headers.get("Date") ?? Date.now());
  return told.toISOString().slice(11, 19);
}

function signInAgain() {
  const { pathname, search, hash } = window.location;
  window.location.assign("/login?next=" + encodeURIComponent(pathname + search + hash));
}

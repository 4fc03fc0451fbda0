// Another view of the same page (its address with another query: another pool, span, order or box) comes into the document
// that is there, by the browser's Navigation API: header and bar as soon as they are sent, then all that is between. What
// has no such API opens the address as a new document, and so does whatever is answered otherwise than by that page.

const FRAME = ["body > header", "form.bar"];
const WHOLE = ["timezone", "refresh"]; // What all of the document depends on.
const main = () => document.getElementById("main");
const stream = () => document.querySelector("[data-stream]");
const PAINTED_MS = 50;
let held = false; // The focus was within what is being replaced.
let pressed = null; // The view whose link is held down, and its answer, which is on its way.

function isView(address) {
  const [here, there] = [new URL(window.location.href), new URL(address, window.location.href)];
  const same = (name) => here.searchParams.get(name) === there.searchParams.get(name);
  return here.origin === there.origin && here.pathname === there.pathname && WHOLE.every(same);
}

function comes({ canIntercept, hashChange, downloadRequest, formData, navigationType, destination }) {
  if (!canIntercept || hashChange || downloadRequest !== null || formData || navigationType === "reload") return false;
  if (destination.sameDocument && navigationType !== "traverse") return false; // An address that a script only writes.
  return isView(destination.url);
}

function ask(address) {
  const stopping = new AbortController();
  return { address, answer: fetch(address, { signal: stopping.signal, headers: { Accept: "text/html" } }), stop: () => stopping.abort() };
}

const documentOf = (text) => new DOMParser().parseFromString(text, "text/html");

// Until the browser has had its turn; a document that nobody sees is never painted.
const painted = () => new Promise((done) => {
  window.requestAnimationFrame(() => window.setTimeout(done));
  window.setTimeout(done, PAINTED_MS);
});

// What stands in the fields is what the address says, whatever was chosen before.
function asSaid(form) {
  for (const field of form.elements) {
    if (field.options) [...field.options].forEach((option) => { option.selected = option.defaultSelected; });
    else if ("defaultValue" in field) field.value = field.defaultValue;
  }
}

async function showFrame(brought) {
  const before = stream();
  if (before) await window.htmx.swap({ text: "", target: before, swap: "delete", sourceElement: document.body });
  for (const selector of FRAME) {
    const [now, next] = [document.querySelector(selector), brought.querySelector(selector)];
    if (now && next) await window.htmx.swap({ text: next.innerHTML, target: now, swap: "innerMorph", sourceElement: now });
  }
  asSaid(document.querySelector("form.bar"));
}

async function showAll(brought) {
  document.title = brought.title;
  main().replaceWith(document.adoptNode(brought.getElementById("main")));
  if (held) main().focus({ preventScroll: true });
  held = false;
  window.htmx.process(main());
  const begun = brought.querySelector("[data-stream]");
  if (begun) main().after(document.adoptNode(begun));
  const [phone, next] = [document.querySelector(".phone-bar"), brought.querySelector(".phone-bar")];
  await window.htmx.swap({ text: next.innerHTML, target: phone, swap: "innerMorph", sourceElement: phone });
  document.dispatchEvent(new CustomEvent("tailwright:view"));
}

async function bring(address, signal) {
  held ||= main().contains(document.activeElement);
  main().setAttribute("aria-busy", "true");
  main().inert = true; // Its links say what was asked for before.
  const asked = pressed?.address === address ? pressed : ask(address);
  pressed = null;
  signal.addEventListener("abort", asked.stop);
  const answer = await asked.answer;
  signal.throwIfAborted();
  if (!answer.ok || answer.redirected) throw new Error("another answer than the page's: " + answer.status);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let framed = false;
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    signal.throwIfAborted();
    text += piece.value;
    if (framed || !text.includes('<main id="main"')) continue;
    framed = true;
    await showFrame(documentOf(text));
    document.dispatchEvent(new CustomEvent("tailwright:frame"));
    await painted();
  }
  signal.throwIfAborted();
  await showAll(documentOf(text));
}

async function view({ destination, signal }) {
  try {
    await bring(destination.url, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    console.warn("The view is opened as a document:", error);
    window.location.reload(); // The address is the new one by now.
    throw error;
  }
}

// Pages without a bar are about one thing, and what is typed into their forms is not to be lost in between.
if (window.navigation && stream() && document.querySelector("form.bar")) {
  window.navigation.addEventListener("navigate", (event) => {
    if (comes(event)) event.intercept({ handler: () => view(event), focusReset: "manual" });
  });
  // A button is held for some 80 ms, which are enough for most of the answer.
  document.addEventListener("pointerdown", ({ target, button, isPrimary, ctrlKey, metaKey, shiftKey, altKey }) => {
    const link = target.closest?.("a[href]:not([download], [target])");
    if (!link || button || !isPrimary || ctrlKey || metaKey || shiftKey || altKey || link.hash || !isView(link.href)) return;
    pressed = ask(link.href);
    pressed.answer.catch(() => {}); // Told to who waits for it.
  });
  // A press that led nowhere: what it asked for is soon not of now. (A click follows in the same task.)
  const forget = () => window.setTimeout(() => { pressed?.stop(); pressed = null; });
  for (const ended of ["pointerup", "pointercancel"]) document.addEventListener(ended, forget);
}

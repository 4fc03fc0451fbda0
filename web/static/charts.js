// Keeps each [data-chart] plot fresh: the server draws it, this brings the new drawing in. A part that is chosen by
// dragging goes into the address as ?from= and ?to=, and holds for all charts of the page until it is reset.

import { Refused, ask, fresh, tell } from "./freshness.js";
import { listen, restore } from "./cursor.js";
import { patienceS, refresh } from "./live.js";
import { morph } from "./morph.js";

const EVERY_S = 5;
const plots = [...document.querySelectorAll("[data-chart]")];
let round = 0;
let timer;

// The plot's address, with the part of the span that the page's own address says.
function addressOf(plot) {
  const [path, query] = plot.dataset.chart.split("?");
  const asked = new URLSearchParams(query);
  for (const [name, value] of zoomed()) asked.set(name, value);
  return path + "?" + asked;
}

function zoomed() {
  const here = new URLSearchParams(window.location.search);
  return here.get("from") && here.get("to") ? [["from", here.get("from")], ["to", here.get("to")]] : [];
}

async function refreshAll() {
  window.clearTimeout(timer);
  const mine = ++round;
  if (!document.hidden) {
    for (const plot of plots) {
      try {
        const { text, asOf } = await ask(addressOf(plot), plot, patienceS(EVERY_S));
        if (mine !== round) return;
        morph(plot, text);
        restore(plot);
        fresh(plot, asOf);
      } catch (error) {
        if (mine !== round) return;
        // A refusal is of this chart alone. A service that does not answer one answers none of them.
        (error instanceof Refused ? [plot] : plots).forEach((of) => tell(of, error.message));
        if (!(error instanceof Refused)) break;
      }
    }
  }
  timer = window.setTimeout(refreshAll, 1000 * EVERY_S);
}

// The address says what is shown, so that a link to it shows the same, and the browser's "back" is one step back.
function zoom(from, to) {
  const url = new URL(window.location.href);
  url.searchParams.set("from", from);
  url.searchParams.set("to", to);
  window.history.pushState({ steps: stepsBack() + 1 }, "", url);
  shown();
}

function reset() {
  const url = new URL(window.location.href);
  url.searchParams.delete("from");
  url.searchParams.delete("to");
  window.history.pushState({ steps: 0 }, "", url);
  shown();
}

const stepsBack = () => window.history.state?.steps ?? 0;

function shown() {
  const bar = document.querySelector("[data-zoom]");
  const part = zoomed();
  bar.hidden = !part.length;
  bar.querySelector("[data-zoom-back]").hidden = !stepsBack();
  bar.querySelector("[data-zoom-words]").textContent = part.map(([, moment]) => moment.slice(11, 19)).join(" to ");
  refreshAll();
}

// The requests behind a point of a chart: those of its step, above its value less what a quantile may be off by.
const EXEMPLARS_OF = { ttft: "ttft", tpot: "tpot", itl: "tpot" };
const QUANTILE_ERROR = 0.022;

function showRequests(plot, { metric: shownMetric, span, time, value }) {
  const asked = new URL(plot.dataset.chart, window.location.origin).searchParams;
  const metric = EXEMPLARS_OF[shownMetric] || "e2e";
  const query = new URLSearchParams({ pool: asked.get("pool"), span, metric, at: time });
  if (metric === shownMetric) query.set("above", String(value / (1 + QUANTILE_ERROR)));
  const part = document.querySelector("[data-live^='/fragments/exemplars']");
  const kept = new URLSearchParams(zoomed());
  const address = "/latency?" + new URLSearchParams([...query, ...kept]) + "#exemplars-title";
  if (!part) {
    window.location.assign(address);
    return;
  }
  const section = part.closest("section");
  part.dataset.live = "/fragments/exemplars?" + query;
  window.history.replaceState(window.history.state, "", address);
  plot.closest(".charts").after(section);
  refresh(part).then(() => section.scrollIntoView({ block: "nearest" }));
}

if (plots.length) {
  plots.forEach((plot) => listen(plot, { zoom, reset, showRequests }));
  document.querySelector("[data-zoom-reset]").addEventListener("click", reset);
  document.querySelector("[data-zoom-back]").addEventListener("click", () => window.history.back());
  window.addEventListener("popstate", shown);
  shown();
}

// Keeps a page live: refreshes each [data-live] part alone, and each [data-chart] plot, while the page is visible.
// A part that cannot be refreshed keeps its last content and is marked stale; the header says so.
"use strict";

const CHART_EVERY_S = 5;
const COLOURS = ["#8aa9bf", "#2f6f9f", "#d2602b", "#5b8c5a", "#8d5b8c", "#b08d2f"];
const stale = new Set();

function mark(key, failed) {
  if (failed) stale.add(key); else stale.delete(key);
  const status = document.getElementById("freshness");
  if (status) {
    status.textContent = stale.size ? "stale: the service does not answer" : "live";
    status.classList.toggle("bad", stale.size > 0);
  }
}

async function get(url) {
  const answer = await fetch(url, { headers: { Accept: "text/html,application/json" } });
  if (answer.status === 401) { window.location.href = "/login?next=" + encodeURIComponent(window.location.pathname); }
  if (!answer.ok) throw new Error(url + " answered " + answer.status);
  return answer;
}

function replace(part, html) {
  const opened = new Map();
  part.querySelectorAll("details[data-key]").forEach((item) => opened.set(item.dataset.key, item.open));
  if (part.contains(document.activeElement) && document.activeElement !== document.body) return;
  part.innerHTML = html;
  part.querySelectorAll("details[data-key]").forEach((item) => {
    if (opened.has(item.dataset.key)) item.open = opened.get(item.dataset.key);
  });
}

async function refresh(part) {
  try {
    if (!document.hidden) {
      replace(part, await (await get(part.dataset.live)).text());
      mark(part.dataset.live, false);
      part.dataset.refreshed = String(Number(part.dataset.refreshed || 0) + 1);
    }
  } catch (error) {
    mark(part.dataset.live, true);
  }
  window.setTimeout(() => refresh(part), 1000 * Number(part.dataset.every || 2));
}

let marks = [];

// The requests behind a point of a chart: those of its step, above its value less what a quantile may be off by.
const EXEMPLARS_OF = { ttft: "ttft", tpot: "tpot", itl: "tpot" };
const QUANTILE_ERROR = 0.022;

function openExemplars(data, curve, point) {
  const series = data.series[curve];
  const metric = EXEMPLARS_OF[data.metric] || "e2e";
  const query = new URLSearchParams(window.location.search);
  query.set("metric", metric);
  query.set("at", series.x[point]);
  if (metric === data.metric) query.set("above", String(series.y[point] / (1 + QUANTILE_ERROR))); else query.delete("above");
  window.location.assign(window.location.pathname + "?" + query + "#exemplars-title");
}

function draw(plot, data) {
  const style = getComputedStyle(document.body);
  const ink = style.getPropertyValue("--ink").trim();
  const line = style.getPropertyValue("--line").trim();
  const traces = data.series.map((series, place) => ({
    name: series.name, x: series.x, y: series.y, mode: "lines+markers", marker: { size: 3 }, connectgaps: false,
    line: { width: 1.6, color: COLOURS[place % COLOURS.length] },
    hovertemplate: "%{y:.4s}s<extra>" + series.name + "</extra>",
  }));
  const lines = marks
    .filter((mark) => mark.time >= data.start && mark.time <= data.end)
    .map((mark) => ({
      type: "line", x0: mark.time, x1: mark.time, yref: "paper", y0: 0, y1: 1,
      line: { width: 1, dash: "dot", color: mark.kind.startsWith("alert") ? "#d2602b" : "#7a7a7a" },
    }));
  const notes = data.count ? [] : [{ text: "no data in this span", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }];
  if (data.accuracy) notes.push({ text: data.accuracy, showarrow: false, xref: "paper", yref: "paper", x: 1, y: 1, xanchor: "right", yanchor: "top" });
  const layout = {
    height: 210, margin: { l: 52, r: 8, t: 6, b: 28 }, showlegend: true, legend: { orientation: "h", y: 1.16, x: 0 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { size: 11, color: ink }, shapes: lines,
    hovermode: "x unified", uirevision: "keep",
    xaxis: { type: "date", range: [data.start, data.end], gridcolor: line },
    yaxis: { rangemode: "tozero", tickformat: "~s", ticksuffix: "s", gridcolor: line },
    annotations: notes,
  };
  window.Plotly.react(plot, traces, layout, { displayModeBar: false, responsive: true });
  if (!plot.drawn) plot.on("plotly_click", ({ points: [at] }) => openExemplars(plot.drawn, at.curveNumber, at.pointIndex));
  plot.drawn = data;
  plot.dataset.points = String(data.series.reduce((sum, series) => sum + series.y.length, 0));
}

async function refreshCharts() {
  const plots = [...document.querySelectorAll("[data-chart]")];
  if (plots.length && !document.hidden) {
    try {
      marks = await (await get("/charts/marks")).json();
      for (const plot of plots) draw(plot, await (await get(plot.dataset.chart)).json());
      mark("charts", false);
    } catch (error) {
      mark("charts", true);
    }
  }
  window.setTimeout(refreshCharts, 1000 * CHART_EVERY_S);
}

document.querySelectorAll("[data-live]").forEach((part) => window.setTimeout(() => refresh(part), 1000 * Number(part.dataset.every || 2)));
if (document.querySelector("[data-chart]")) refreshCharts();

// Draws each [data-chart] plot anew every few seconds. A reader's zoom stays until it is reset, and a click on a point
// shows the requests behind it, in place.

import { Refused, ask, fresh, tell } from "./freshness.js";
import { patienceS, refresh } from "./live.js";

const EVERY_S = 5;
const COLOURS = ["#8aa9bf", "#2f6f9f", "#d2602b", "#5b8c5a", "#8d5b8c", "#b08d2f"];

let marks = [];

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
  const { x = [data.start, data.end], y } = plot.zoom || {};
  const layout = {
    height: 210, margin: { l: 52, r: 8, t: 6, b: 28 }, showlegend: true, legend: { orientation: "h", y: 1.16, x: 0 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { size: 11, color: ink }, shapes: lines,
    hovermode: "x unified", uirevision: "keep",
    // Plotly keeps what the reader hid in the legend; the ranges are kept here, for the span itself moves on.
    xaxis: { type: "date", range: x, gridcolor: line, uirevision: null },
    yaxis: { rangemode: "tozero", tickformat: "~s", ticksuffix: "s", gridcolor: line, uirevision: null, ...(y ? { range: y } : { autorange: true }) },
    annotations: notes,
  };
  window.Plotly.react(plot, traces, layout, { displayModeBar: false, responsive: true, doubleClick: false });
  if (!plot.drawn) listen(plot);
  plot.drawn = data;
  plot.dataset.points = String(data.series.reduce((sum, series) => sum + series.y.length, 0));
}

function listen(plot) {
  const button = plot.parentElement.querySelector("[data-reset-zoom]");
  const reset = () => { plot.zoom = null; button.hidden = true; draw(plot, plot.drawn); };
  plot.on("plotly_click", ({ points: [at] }) => showRequests(plot, at.curveNumber, at.pointIndex));
  plot.on("plotly_doubleclick", reset);
  plot.on("plotly_relayout", (change) => {
    const of = (axis) => (change[axis + ".range[0]"] === undefined ? {} : { [axis[0]]: [change[axis + ".range[0]"], change[axis + ".range[1]"]] });
    const zoomed = { ...of("xaxis"), ...of("yaxis") };
    if (!Object.keys(zoomed).length) return;
    plot.zoom = { ...plot.zoom, ...zoomed };
    button.hidden = false;
  });
  button.addEventListener("click", reset);
}

// The requests behind a point of a chart: those of its step, above its value less what a quantile may be off by.
const EXEMPLARS_OF = { ttft: "ttft", tpot: "tpot", itl: "tpot" };
const QUANTILE_ERROR = 0.022;

function showRequests(plot, curve, point) {
  const { metric: shown, series } = plot.drawn;
  const asked = new URL(plot.dataset.chart, window.location.origin).searchParams;
  const metric = EXEMPLARS_OF[shown] || "e2e";
  const query = new URLSearchParams({ pool: asked.get("pool"), span: asked.get("span"), metric, at: series[curve].x[point] });
  if (metric === shown) query.set("above", String(series[curve].y[point] / (1 + QUANTILE_ERROR)));
  const address = "/latency?" + query + "#exemplars-title";
  const part = document.querySelector("[data-live^='/fragments/exemplars']");
  if (!part) {
    window.location.assign(address);
    return;
  }
  const section = part.closest("section");
  part.dataset.live = "/fragments/exemplars?" + query;
  window.history.replaceState(null, "", address);
  plot.closest(".charts").after(section);
  refresh(part).then(() => section.scrollIntoView({ block: "nearest" }));
}

async function refreshCharts(plots) {
  if (!document.hidden) {
    for (const plot of plots) {
      try {
        if (plot === plots[0]) marks = JSON.parse((await ask("/charts/marks", plot, patienceS(EVERY_S))).text);
        const { text, asOf } = await ask(plot.dataset.chart, plot, patienceS(EVERY_S));
        draw(plot, JSON.parse(text));
        fresh(plot, asOf);
      } catch (error) {
        // A refusal is of this chart alone. A service that does not answer one answers none of them.
        (error instanceof Refused ? [plot] : plots).forEach((of) => tell(of, error.message));
        if (!(error instanceof Refused)) break;
      }
    }
  }
  window.setTimeout(() => refreshCharts(plots), 1000 * EVERY_S);
}

refreshCharts([...document.querySelectorAll("[data-chart]")]);

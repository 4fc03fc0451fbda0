// How values are written for a reader, as the server writes them. Moments are on the clock that the page is shown in.

const DAY_MS = 86_400_000;

// The page's zone; UTC where this browser does not know it, as is then said beside each moment.
function zoneOf(asked) {
  try {
    new Intl.DateTimeFormat("en-GB", { timeZone: asked });
    return asked;
  } catch {
    return "UTC";
  }
}

export const ZONE = zoneOf(document.documentElement.dataset.timezone || "UTC");

const form = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: ZONE, ...options });
const TIME = form({ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = form({ day: "numeric" });
const MONTH = new Intl.DateTimeFormat("en-US", { timeZone: ZONE, month: "short" }); // "Sep", not "Sept".
const NAME = form({ hour: "2-digit", timeZoneName: "short" });

export const clock = (ms) => TIME.format(ms);

// "UTC", "CEST": which of two clocks it is on the day on which they are put back.
const zoneName = (ms) => NAME.formatToParts(ms).find(({ type }) => type === "timeZoneName").value;

// On an axis of `spanMs`: with the day where that is longer than one.
const dated = (ms, spanMs) => (spanMs > DAY_MS ? DAY.format(ms) + " " + MONTH.format(ms) + " " : "") + clock(ms);

export const stamp = (ms, spanMs) => dated(ms, spanMs) + " " + zoneName(ms);

// The column of moments in a table of values.
export const timeHead = "Time, " + ZONE;
export const timeCell = (ms, spanMs) => (ZONE === "UTC" ? dated : stamp)(ms, spanMs);

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 100) return value.toFixed(0) + " s";
  if (value >= 1) return value.toFixed(2) + " s";
  if (value >= 1e-3) return Number((value * 1e3).toPrecision(3)) + " ms";
  return (value * 1e6).toFixed(0) + " µs";
}

const count = (value) => (Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3))));
const share = (value) => (100 * value).toFixed(value === 0 || Math.abs(value) >= 0.1 ? 0 : 1) + " %";

// A value of a chart in the unit that its values name (web/drawing/units.py).
export function written(value, unit) {
  if (value === null || value === undefined) return "–";
  const of = (suffix) => (one) => count(one) + suffix;
  const words = { share, count, rate: of(" /s"), megahertz: of(" MHz"), celsius: of(" °C"), watts: of(" W") }[unit] ?? seconds;
  return words(value);
}

// Of each of `times` (ms, rising) what happened from then to the next, as the marks [moment, words] tell.
export function happenedAt(times, marks) {
  const found = times.map(() => []);
  for (const [moment, words] of marks) {
    const next = times.findIndex((time) => time > Date.parse(moment));
    found.at(next < 0 ? -1 : Math.max(next - 1, 0))?.push(clock(Date.parse(moment)) + " " + words);
  }
  return found.map((words) => words.join("; "));
}

// Such a column's name.
export const HAPPENED = "Meanwhile";

// A table of text: a head of column names, rows of cells. All but the first of each row, and what happened, are numbers.
export function tableOf(head, rows) {
  const table = document.createElement("table");
  const row = (cells, name) => {
    const made = document.createElement("tr");
    cells.forEach((text, place) => {
      const cell = document.createElement(name);
      cell.textContent = text;
      if (place && head[place] !== HAPPENED) cell.className = "number";
      made.append(cell);
    });
    return made;
  };
  table.createTHead().append(row(head, "th"));
  table.createTBody().append(...rows.map((cells) => row(cells, "td")));
  return table;
}

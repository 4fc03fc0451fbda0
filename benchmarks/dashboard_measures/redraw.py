"""A chart of 10,000 points by four lines drawn anew: on the service, and in the browser that takes it in."""

import math
import time
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks.dashboard_measures.browsing import Goal, middle, served, signed_in
from web.drawing.line_chart import Line, LineChart, drawn

POINTS, LINES, TIMES = 10_000, 4, 9
SWAPPED = """(markup) => {
  const place = document.querySelector("main");
  const began = performance.now();
  place.innerHTML = markup;
  place.getBoundingClientRect();
  return performance.now() - began;
}"""


def chart(turn: int) -> LineChart:
    lines = []
    for line in range(LINES):
        values = ((at, 1 + line + math.sin((at + 97 * turn) / 300) + (at * 7919 % 97) / 97) for at in range(POINTS))
        lines.append(Line(f"p{line}", [(float(at), value) for at, value in values]))
    return drawn(lines, 0.0, float(POINTS), 1.0, [])


def markup(made: LineChart) -> str:
    paths = "".join(f'<path class="curve {line.look}" d="{line.path}"/>' for line in made.lines)
    return f'<svg viewBox="0 0 1000 180" width="1000" height="180" preserveAspectRatio="none">{paths}</svg>'


def measure(browser: Browser, folder: Path) -> list[Goal]:
    drawing, taking_in = [], []
    with served(folder) as service:
        context = signed_in(browser, service)
        page = context.new_page()
        page.goto("/gallery")
        for turn in range(TIMES):
            began = time.perf_counter()
            made = markup(chart(turn))
            drawing.append(1000 * (time.perf_counter() - began))
            taking_in.append(float(page.evaluate(SWAPPED, made)))
        context.close()
    name = f"{POINTS:,} points x {LINES} lines redrawn"
    return [
        Goal(f"{name}: in the browser", "30 ms", f"{middle(taking_in)}; {len(made) / 1000:.0f} kB"),
        Goal(f"{name}: on the service, their points made", "-", middle(drawing)),
    ]

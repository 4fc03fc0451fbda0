"""What a press costs: milliseconds from an input to the next paint, each kind of interaction by itself.

Within a page that is the browser's own figure (Event Timing, the longest of an interaction's events, in steps of 8 ms
from 16 ms on: what was faster counts as 16). What leads to another page is measured from the input's own time until
the first contentful paint of that page, both on the browser's clock.
"""

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import BrowserContext, Locator, Page

from benchmarks.dashboard_measures.browsing import PAINTED, Goal, middle

TIMES = 7
FASTEST_MS = 16.0
GOAL = "100 ms"
EXPLORE, FLEET = "/explore?pool=pool-0&from=now-7d", "/fleet"
WATCHED = f"""
  window.durations = [];
  const keep = (entries) => entries.forEach((one) => one.interactionId && window.durations.push(one.duration));
  window.watching = new PerformanceObserver((list) => keep(list.getEntries()));
  window.watching.observe({{ type: "event", durationThreshold: {FASTEST_MS:g}, buffered: true }});
  window.durationsNow = () => {{ keep(window.watching.takeRecords()); return window.durations.splice(0); }};
  const at = (event) => performance.timeOrigin + event.timeStamp;
  const note = (event) => event.isTrusted && sessionStorage.setItem("input-at", at(event));
  for (const kind of ["keydown", "pointerup"]) addEventListener(kind, note, true);
"""
"""In every page, before its own scripts: what took how long to be painted, and when the last input was."""
LONGEST = """() => new Promise((done) => {
  const tell = () => done(Math.max(0, ...window.durationsNow()));
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(tell, 150)));
})"""
SINCE_INPUT = f"""async () => {{
  const painted = await ({PAINTED})();
  return performance.timeOrigin + painted - Number(sessionStorage.getItem("input-at"));
}}"""


@dataclass(frozen=True)
class Interaction:
    """`act` is one input on the page at `path`, done TIMES times over; what has to be done before each, `prepare`
    does, unmeasured. `leads_on`: to another page."""

    name: str
    path: str
    act: Callable[[Page], None]
    prepare: Callable[[Page], None] = lambda page: None
    leads_on: bool = False


def measure(context: BrowserContext) -> list[Goal]:
    """A line for each kind of interaction."""
    context.add_init_script(WATCHED)
    page = context.new_page()
    found = [
        Goal(f"from the press to the paint: {one.name}", GOAL, middle(times_of(page, one))) for one in INTERACTIONS
    ]
    page.close()
    return found


def times_of(page: Page, one: Interaction) -> list[float]:
    page.goto(one.path, wait_until="load")
    return [_led_on(page, one) if one.leads_on else _in_page(page, one) for _ in range(TIMES)]


def _in_page(page: Page, one: Interaction) -> float:
    one.prepare(page)
    page.evaluate(LONGEST)  # What preparing took is not the interaction's.
    one.act(page)
    return max(FASTEST_MS, float(page.evaluate(LONGEST)))


def _led_on(page: Page, one: Interaction) -> float:
    one.prepare(page)
    with page.expect_navigation(wait_until="load"):
        one.act(page)
    return float(page.evaluate(SINCE_INPUT))


def heat_map(page: Page) -> Locator:
    return page.locator("figure.heat-map").first


def toggle_palette(page: Page) -> None:
    page.keyboard.press("Escape" if page.locator("#palette[open]").count() else "Control+k")


def open_palette(page: Page) -> None:
    if not page.locator("#palette[open]").count():
        toggle_palette(page)


def toggle_filters(page: Page) -> None:
    page.locator("form.bar details.more > summary").click()


def choose_next_pool(page: Page) -> None:
    page.locator("form.bar select[name=pool]").press("ArrowDown")


def sort_by_p99(page: Page) -> None:
    page.get_by_role("columnheader", name="TTFT p99").get_by_role("link").click()


def begin_box(page: Page) -> None:
    """Drag to the second corner, and hold the button: letting go chooses the box."""
    page.goto(EXPLORE, wait_until="load")
    area = heat_map(page).locator(".cursor")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.99 * box["width"], box["y"] + 0.6 * box["height"], steps=5)


INTERACTIONS = (
    Interaction("the palette opens, and closes", EXPLORE, toggle_palette),
    Interaction("a key typed in the palette", EXPLORE, lambda page: page.keyboard.press("n"), open_palette),
    Interaction("the bar's filters open, and close", EXPLORE, toggle_filters),
    Interaction(
        "the heat map's values open as a table, and close",
        EXPLORE,
        lambda page: heat_map(page).locator("button[data-table]").click(),
    ),
    Interaction(
        "the heat map's cursor moves by a key",
        EXPLORE,
        lambda page: heat_map(page).locator(".cursor").press("ArrowLeft"),
    ),
    Interaction("another pool, to its page", EXPLORE, choose_next_pool, leads_on=True),
    Interaction("the fleet by p99, to its page", FLEET, sort_by_p99, leads_on=True),
    Interaction("a box on the heat map, to its page", EXPLORE, lambda page: page.mouse.up(), begin_box, leads_on=True),
    Interaction("another theme", FLEET, lambda page: page.locator("header > form button[data-action=theme]").click()),
)

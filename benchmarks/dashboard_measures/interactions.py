"""What a press costs: milliseconds from an input to the next paint, each kind of interaction by itself.

Within a page that is the browser's own figure (Event Timing, the longest of an interaction's events, in steps of 8 ms
from 16 ms on: what was faster counts as 16). What leads on is measured from the input's own time, both on the browser's
clock: until what was asked for is first painted (of a new document its first contentful paint; of a view that comes
into the document that is there, the paint after its header and bar are in), and until all that came with it is painted.
Each is done both ways, by turns: as it is, and as new documents, in a browser that is told to have no Navigation API.
"""

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import BrowserContext, Locator, Page

from benchmarks.dashboard_measures.browsing import PAINTED, Goal, middle

TIMES = 7
FASTEST_MS = 16.0
GOAL = "100 ms"
HELD_MS, SETTLED_MS = 80.0, 1_000.0
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
WHOLE_DOCUMENTS = "Object.defineProperty(window, 'navigation', { value: undefined });"
AWAIT_VIEW = """() => {
  const painted = (done) => requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  const after = (name) => new Promise((done) => document.addEventListener(name, () => painted(done), { once: true }));
  window.viewed = Promise.all(["tailwright:frame", "tailwright:view"].map(after));
}"""
"""In the document that is left, or stays: when the next view is painted, first and whole."""
SINCE_INPUT = f"""async () => {{
  const loaded = () => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))));
  const painted = window.viewed ? await window.viewed : [await ({PAINTED})(), await loaded()];
  return painted.map((at) => performance.timeOrigin + at - Number(sessionStorage.getItem("input-at")));
}}"""
"""Asked when the page is loaded."""


@dataclass(frozen=True)
class Interaction:
    """`act` is one input on the page at `path`, done TIMES times over; what has to be done before each, `prepare`
    does, unmeasured. `leads_on`: to another address."""

    name: str
    path: str
    act: Callable[[Page], None]
    prepare: Callable[[Page], None] = lambda page: None
    leads_on: bool = False


def measure(context: BrowserContext, documents: BrowserContext) -> list[Goal]:
    """Lines for each kind of interaction. `documents`: signed in as `context` is, for new documents."""
    context.add_init_script(WATCHED)
    documents.add_init_script(WATCHED + WHOLE_DOCUMENTS)
    page, other = context.new_page(), documents.new_page()
    found = []
    for one in INTERACTIONS:
        name = f"from the press to the paint: {one.name}"
        if one.leads_on:
            views, anew = led_on([page, other], one)
            for place, (what, goal) in enumerate({"": GOAL, ", all of it": "-"}.items()):
                found.append(Goal(name + what, goal, middle([times[place] for times in views])))
                found.append(Goal(f"{name}{what}, as a new document", "-", middle([times[place] for times in anew])))
        else:
            found.append(Goal(name, GOAL, middle(times_of(page, one))))
    page.close()
    other.close()
    return found


def times_of(page: Page, one: Interaction) -> list[float]:
    page.goto(one.path, wait_until="load")
    return [_in_page(page, one) for _ in range(TIMES)]


def led_on(pages: list[Page], one: Interaction) -> list[list[tuple[float, float]]]:
    """Of each page, until what was asked for is painted first, and whole, TIMES times. They take turns, and who goes
    first changes: what the service has just answered to one costs it less for the next."""
    for page in pages:
        page.goto(one.path, wait_until="load")
    found: list[list[tuple[float, float]]] = [[] for _ in pages]
    for turn in range(TIMES):
        for place in range(len(pages))[:: -1 if turn % 2 else 1]:
            found[place].append(_led_on(pages[place], one))
    return found


def _in_page(page: Page, one: Interaction) -> float:
    one.prepare(page)
    page.evaluate(LONGEST)  # What preparing took is not the interaction's.
    one.act(page)
    return max(FASTEST_MS, float(page.evaluate(LONGEST)))


def _led_on(page: Page, one: Interaction) -> tuple[float, float]:
    one.prepare(page)
    page.evaluate(AWAIT_VIEW)
    with page.expect_navigation(wait_until="load"):
        one.act(page)
    first, whole = page.evaluate(SINCE_INPUT)
    return float(first), float(whole)


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


def p99_link(page: Page) -> Locator:
    return page.get_by_role("columnheader", name="TTFT p99").get_by_role("link")


def hold_p99(page: Page) -> None:
    """Press it as long as people do before they let go, which is unmeasured."""
    p99_link(page).hover()
    page.mouse.down()
    page.wait_for_timeout(HELD_MS)


def settle(page: Page) -> None:
    """What the page before had still to do is not the press'."""
    page.wait_for_timeout(SETTLED_MS)


def begin_box(page: Page) -> None:
    """Drag to the second corner, and hold the button: letting go chooses the box."""
    page.goto(EXPLORE, wait_until="load")
    area = heat_map(page).locator(".cursor")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    settle(page)
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.99 * box["width"], box["y"] + 0.6 * box["height"], steps=5)


def back_to_fleet(page: Page) -> None:
    page.goto(FLEET, wait_until="load")
    settle(page)


def to_requests(page: Page) -> None:
    page.get_by_role("link", name="Requests", exact=True).first.click(delay=HELD_MS)


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
    Interaction("another pool", EXPLORE, choose_next_pool, settle, leads_on=True),
    Interaction("the fleet by p99", FLEET, lambda page: p99_link(page).click(), settle, leads_on=True),
    Interaction("the fleet by p99, held for 80 ms", FLEET, lambda page: page.mouse.up(), hold_p99, leads_on=True),
    Interaction("a box on the heat map", EXPLORE, lambda page: page.mouse.up(), begin_box, leads_on=True),
    Interaction("another page, by its link", FLEET, to_requests, back_to_fleet, leads_on=True),
    Interaction("another theme", FLEET, lambda page: page.locator("header > form button[data-action=theme]").click()),
)

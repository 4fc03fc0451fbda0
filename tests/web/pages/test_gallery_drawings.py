"""Drawings in a real browser, as the gallery shows them."""

import json
import re
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.processes import wait_for

pytestmark = pytest.mark.browser


@pytest.fixture
def gallery(bare_page: Page) -> Page:
    bare_page.goto("/gallery")
    return bare_page


def test_a_sparkline_is_seen_and_said(gallery: Page) -> None:
    expect(gallery.get_by_role("img", name="p99 1.63 s, was 1.20 s")).to_be_visible()
    expect(gallery.get_by_role("img", name="p99: no data")).to_be_visible()
    expect(gallery.locator(".spark .last.beyond")).to_have_count(1)


def test_waterfalls_have_one_scale(gallery: Page) -> None:
    rows = gallery.locator(".waterfalls tbody tr")
    expect(rows).to_have_count(3)
    lengths = [
        rows.nth(at).locator("rect.part-prefill").evaluate("(bar) => bar.getBoundingClientRect().width")
        for at in (0, 1)
    ]
    assert lengths[0] == pytest.approx(lengths[1], abs=0.1) and lengths[0] > 10
    large = gallery.get_by_role("figure", name="Where the time went: req-1")
    expect(large).to_contain_text("mostly queue: 1.90 s")
    expect(large.locator("svg.waterfall-part .ghost")).to_have_count(6)


def test_a_front_is_drawn_said_and_tabled(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="TTFT p95 against time per good request")
    expect(figure.locator(".mark.front")).to_have_count(3)
    expect(figure.locator("line.best")).to_have_count(4)
    expect(figure).to_contain_text("3 of 7 configurations are on the front")
    figure.get_by_role("button", name="Table").click()
    expect(figure.get_by_role("row")).to_have_count(8)


def cells_of(gallery: Page) -> Any:
    return gallery.get_by_role("application", name="Cells of Time to first token")


def boxes(gallery: Page) -> list[dict[str, Any]]:
    """The boxes chosen from now on, as they are told."""
    gallery.evaluate(
        "window.boxes = []; document.addEventListener('tailwright:box', (event) => window.boxes.push(event.detail));"
    )
    return []


PIXEL = """(figure, [x, y]) => {
  const [r, g, b, a] = figure.querySelector("canvas").getContext("2d").getImageData(x, y, 1, 1).data;
  return a ? `rgb(${r}, ${g}, ${b})` : "none";
}"""
SWATCHES = "(figure) => [...figure.querySelectorAll('.scale i')].map((one) => getComputedStyle(one).backgroundColor)"


def _has_colours(figure: Locator, wanted: dict[tuple[int, int], str]) -> bool:
    return all(figure.evaluate(PIXEL, list(place)) == colour for place, colour in wanted.items())


def test_a_heat_maps_cells_have_the_legends_colours_in_both_themes(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="Time to first token")
    expect(figure).to_have_attribute("data-cells", re.compile(r"^\d{4}$"))
    data = json.loads(str(figure.get_attribute("data-heat-map")))
    rows = len(data["edges"]) - 1
    seen = set()
    for theme in ("light", "dark"):
        gallery.emulate_media(color_scheme=theme)
        swatches = figure.evaluate(SWATCHES)
        seen.add(tuple(swatches))
        wanted = {}
        for column, lowest, counts in data["cells"][::20]:
            for place, count in enumerate(counts):
                level = sum(least <= count for least in data["levels"]) - 1
                wanted[column, rows - 1 - lowest - place] = swatches[level] if count else "none"
        # The page draws anew when it hears of the theme.
        wait_for("the legend's colours", partial(_has_colours, figure, wanted))
    assert len(seen) == 2
    gallery.emulate_media(color_scheme="light", media="print")
    assert figure.evaluate(SWATCHES) == list(min(seen, key=lambda one: one != tuple(figure.evaluate(SWATCHES))))


def test_a_heat_maps_cells_are_read_and_a_box_is_chosen_by_keys(gallery: Page) -> None:
    cursor = cells_of(gallery)
    figure = gallery.get_by_role("figure", name="Time to first token")
    boxes(gallery)
    cursor.focus()
    for key in ("ArrowLeft", "Home", "ArrowUp"):
        cursor.press(key)
    data = json.loads(str(figure.get_attribute("data-heat-map")))
    expect(figure.locator(".readout")).to_have_text(
        re.compile(r"^00:00:00 UTC, [\d.]+ m?s to [\d.]+ m?s: \d+ requests$")
    )
    cursor.press("Enter")
    expect(figure.locator(".readout")).to_contain_text("a box begins at 00:00:00: Enter ends it")
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "Enter"):
        cursor.press(key)
    [box] = gallery.evaluate("window.boxes")
    assert (box["start"], box["end"]) == ("1970-01-01T00:00:00.000Z", "1970-01-01T00:00:30.000Z")
    assert box["low"] in data["edges"] and data["edges"].index(box["high"]) == data["edges"].index(box["low"]) + 2
    expect(figure.locator(".chosen")).to_be_visible()
    cursor.press("Escape")
    expect(figure.locator(".chosen")).to_be_hidden()
    expect(figure.locator(".readout")).to_have_text("")


def test_a_box_is_chosen_by_dragging_whichever_way(gallery: Page) -> None:
    cursor = cells_of(gallery)
    cursor.scroll_into_view_if_needed()
    at = cursor.bounding_box()
    boxes(gallery)
    for one, other in ((0.25, 0.5), (0.5, 0.25)):
        gallery.mouse.move(at["x"] + one * at["width"], at["y"] + one * at["height"])
        gallery.mouse.down()
        gallery.mouse.move(at["x"] + other * at["width"], at["y"] + other * at["height"], steps=3)
        gallery.mouse.up()
    first, second = gallery.evaluate("window.boxes")
    assert first == second and first["start"] < first["end"] and first["low"] < first["high"]
    gallery.mouse.click(at["x"] + 5, at["y"] + 5)
    assert len(gallery.evaluate("window.boxes")) == 2  # A click is no box.


def test_a_heat_maps_values_are_a_table_that_sums_up(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="Time to first token")
    figure.get_by_role("button", name="Table").click()
    data = json.loads(str(figure.get_attribute("data-heat-map")))
    rows = figure.locator(".values tbody tr")
    expect(rows).to_have_count(len(data["cells"]))
    told = figure.locator(".values td.number").all_inner_texts()
    assert sum(map(int, told)) == sum(sum(counts) for _, _, counts in data["cells"])
    figure.get_by_role("button", name="Table").click()
    expect(figure.locator(".values")).to_be_hidden()


def test_new_data_are_drawn_and_an_empty_map_says_so(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="No requests")
    expect(figure).to_contain_text("No data in this span.")
    expect(figure).to_have_attribute("data-cells", "0")
    gallery.evaluate(
        """() => {
      const [full, empty] = document.querySelectorAll("[data-heat-map]");
      full.dataset.heatMap = empty.dataset.heatMap;
    }"""
    )
    expect(gallery.get_by_role("figure", name="Time to first token")).to_have_attribute("data-cells", "0")


def test_one_crosshair_runs_over_all_drawings_of_an_axis(gallery: Page) -> None:
    cursor = cells_of(gallery)
    cursor.focus()
    cursor.press("ArrowLeft")
    crosshair = gallery.get_by_role("figure", name="No requests").locator(".crosshair")
    expect(crosshair).to_have_attribute("visibility", "visible")
    assert crosshair.get_attribute("x1") == cells_of(gallery).locator("..").locator(".crosshair").get_attribute("x1")
    ribbon = gallery.get_by_role("figure", name="What bound the steps: idle").locator(".crosshair")
    assert float(str(ribbon.get_attribute("x1"))[:-1]) == pytest.approx(float(str(crosshair.get_attribute("x1"))[:-1]))
    gallery.locator(".ribbon").last.evaluate("(ribbon) => ribbon.setAttribute('data-shared-axis', '')")
    gallery.get_by_role("figure", name="No requests").evaluate(
        "(figure) => figure.setAttribute('data-shared-axis', '')"
    )
    cursor.press("Home")  # Another container has its own moment: the old one stays away from it.
    expect(ribbon).to_have_attribute("x1", re.compile("^0.5"))
    assert crosshair.get_attribute("x1") != ribbon.get_attribute("x1")
    cursor.press("Escape")
    expect(ribbon).to_have_attribute("visibility", "hidden")


def test_a_click_on_a_ribbon_leads_to_the_words_of_its_limit(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="What bound the steps: every limit")
    figure.get_by_role("link", name=re.compile("^kv memory")).click(position={"x": 900, "y": 3})
    expect(gallery).to_have_url(re.compile("#ribbon-1-kv_memory$"))
    expect(figure.locator("li:target")).to_contain_text("Lifted by kv_cache_memory_bytes")


def test_stacks_and_verdicts_are_seen_and_said(gallery: Page) -> None:
    expect(gallery.get_by_role("figure", name="Before and during")).to_contain_text("100 ms to 500 ms (+400 ms)")
    worse = gallery.get_by_role("img", name=re.compile("^Worse: Worse: ttft p99 is 22 % higher"))
    expect(worse).to_be_visible()
    point, bound = (worse.locator(name).last.bounding_box() for name in (".point", ".bound"))
    assert point and bound and point["x"] > bound["x"]


def test_a_ribbons_shares_over_time_are_a_table(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="What bound the steps: idle")
    expect(figure.locator(".values")).to_be_hidden()
    figure.get_by_role("button", name="Table").press("Enter")
    expect(figure.get_by_role("region", name="Values of What bound the steps: idle")).to_be_visible()
    assert figure.locator(".values th").all_inner_texts() == ["Time, UTC", "no work"]
    rows = figure.locator(".values tbody tr")
    expect(rows).to_have_count(86)  # Of 90 steps, four of which were not told.
    assert rows.first.locator("td").all_inner_texts() == ["00:14:50", "100 %"]
    whole = gallery.get_by_role("figure", name="What bound the steps: every limit")
    whole.get_by_role("button", name="Table").click()
    shares = whole.locator(".values tbody tr").last.locator("td.number").all_inner_texts()
    assert len(shares) == 6 and sum(float(share.removesuffix(" %")) for share in shares) == pytest.approx(100, abs=3)
    nothing = gallery.get_by_role("figure", name="What bound the steps: nothing told")
    expect(nothing.get_by_role("button", name="Table")).to_have_count(0)


def test_a_table_stays_open_when_its_part_is_brought_anew(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="What bound the steps: idle")
    figure.get_by_role("button", name="Table").click()
    figure.evaluate(
        """(figure) => {
      figure.querySelector(".values").hidden = true;
      figure.querySelector(".values").replaceChildren();
      figure.querySelector("[data-table]").setAttribute("aria-expanded", "false");
      document.dispatchEvent(new CustomEvent("htmx:after:swap"));
    }"""
    )
    expect(figure.locator(".values tbody tr")).to_have_count(86)
    expect(figure.get_by_role("button", name="Table")).to_have_attribute("aria-expanded", "true")


def test_a_verdicts_figures_are_a_table(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="Inconclusive")
    figure.get_by_role("button", name="Table").click()
    told = [row.locator("td").all_inner_texts() for row in figure.locator(".values tbody tr").all()]
    assert told == [
        ["estimate", "1.1×", "10 % higher"],
        ["interval from", "no bound", "any amount lower"],
        ["interval to", "2.5×", "150 % higher"],
        ["better below", "1×", "the same"],
        ["not worse up to", "1.05×", "5 % higher"],
    ]
    figure.get_by_role("button", name="Table").click()
    expect(figure.locator(".values")).to_be_hidden()


def test_nodes_are_read_and_opened_by_keys_and_by_pointer(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="Nodes by pool")
    cells = gallery.get_by_role("application", name="Nodes of Nodes by pool")
    expect(figure).to_have_attribute("data-cells", "300")
    names = json.loads(str(figure.get_attribute("data-node-cells")))["names"]
    cells.focus()
    shown = figure.locator(".readout a")
    for key, place in (("ArrowRight", 0), ("ArrowRight", 1), ("End", 299), ("ArrowLeft", 298), ("Home", 0)):
        cells.press(key)
        expect(shown).to_have_text(names[place])
    expect(figure.locator(".readout")).to_have_text(re.compile(r"^gpu-\d+: p99 [\d.]+ m?s, [a-z]+, in pool chat$"))
    cells.press("ArrowDown")
    below = shown.inner_text()
    cells.press("ArrowUp")
    expect(shown).to_have_text(names[0])
    assert names.index(below) > 10
    cells.press("Escape")
    expect(shown).to_have_count(0)
    cells.hover(position={"x": 4, "y": 22})
    expect(shown).to_have_text(names[0])
    cells.click(position={"x": 4, "y": 22})
    expect(gallery).to_have_url(re.compile(f"/nodes/{names[0]}$"))


def test_a_nodes_cell_has_its_values_colour_and_another_size_loses_none(gallery: Page) -> None:
    figure = gallery.get_by_role("figure", name="Nodes by pool")
    data = json.loads(str(figure.get_attribute("data-node-cells")))
    first = next(place for place, kind in enumerate(data["kinds"]) if kind == "g")
    assert first < 40  # In the first row.
    colour = figure.evaluate(SWATCHES)[data["levels"][first]]
    for width in (1280, 900):
        gallery.set_viewport_size({"width": width, "height": 800})
        expect(figure).to_have_attribute("data-cells", "300")
        gallery.wait_for_function(
            "([figure, wide]) => figure.querySelector('canvas').clientWidth <= wide",
            arg=[figure.element_handle(), width],
        )
        assert figure.evaluate(PIXEL, [18 * first + 3, 18 + 3]) == colour
    expect(gallery.get_by_role("figure", name="Nobody")).to_contain_text("No nodes.")

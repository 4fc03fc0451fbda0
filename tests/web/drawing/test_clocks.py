"""The clock of charts is the reader's: ticks, crosshair and tables, also on days on which it is put forward or back."""

import re
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect

from tests.web.conftest import Bare, signed_in
from web.drawing.axes import DAY_S, ROUND_S, clock_words, time_ticks
from web.drawing.line_chart import Line, Mark, drawn
from web.frame.assets import ASSETS
from web.frame.format import shown_in

BERLIN, KOLKATA = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")
ODD = ("Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Asia/Kathmandu")
"""Put forward by half an hour, by two hours, twice within a month; and not a whole hour off."""


def words(start: str, end: str, zone: ZoneInfo = BERLIN) -> list[str]:
    start_s, end_s = (datetime.fromisoformat(text).timestamp() for text in (start, end))
    return [clock_words(tick, end_s - start_s, zone) for tick in time_ticks(start_s, end_s, zone=zone)]


def test_a_day_on_which_clocks_are_put_forward_or_back_is_told_by_its_own_hours() -> None:
    forward, back = ("2026-03-29T{}+01:00", "2026-03-29T{}+02:00"), ("2026-10-25T{}+02:00", "2026-10-25T{}+01:00")
    assert words(forward[0].format("00:00"), forward[1].format("12:00")) == [
        "00:00",
        "03:00",
        "06:00",
        "09:00",
        "12:00",
    ]
    assert words(forward[0].format("01:00"), forward[1].format("04:00")) == [
        "01:00",
        "01:30",
        "03:00",
        "03:30",
        "04:00",
    ]
    assert words(back[0].format("01:30"), back[1].format("03:30")) == ["02:00", "02:00", "03:00"]


def test_a_clock_that_is_no_whole_hour_off_has_round_ticks() -> None:
    assert words("2026-03-01T00:05Z", "2026-03-01T04:00Z", KOLKATA) == ["06:00", "07:00", "08:00", "09:00"]


def test_a_long_axis_names_its_days_to_its_end() -> None:
    assert words("2026-03-27T12:00Z", "2026-03-30T12:00Z") == ["28 Mar 00:00", "29 Mar 00:00", "30 Mar 00:00"]
    assert words("2026-03-01T12:00Z", "2026-05-31T12:00Z")[-1] == "7 May 00:00"


@given(st.sampled_from(("Europe/Berlin", *ODD)), st.integers(1_700_000_000, 1_900_000_000), st.integers(5, 92 * DAY_S))
def test_every_moment_that_is_round_on_the_clock_is_a_tick(name: str, start: int, length: int) -> None:
    zone = ZoneInfo(name)
    ticks = time_ticks(start, start + length, zone=zone)
    assert len(ticks) <= 6 and all(start <= tick <= start + length for tick in ticks)
    assert all(before < after for before, after in pairwise(ticks))

    def shown(time_s: float) -> float:
        """Seconds on the zone's clocks."""
        return datetime.fromtimestamp(time_s, zone).replace(tzinfo=UTC).timestamp()

    distance = next((step for step in ROUND_S if length / step < 5), ROUND_S[-1])
    assert all(shown(tick) % distance == 0 for tick in ticks)
    # Ticks stand as far apart as the clocks show, but where these are shifted.
    apart = [after - before for before, after in pairwise([start, *ticks, start + length])]
    assert max(apart) <= distance + 2 * 3600


def test_a_charts_ticks_and_marks_are_on_the_clock_that_its_page_is_shown_in() -> None:
    start_s = datetime(2026, 10, 24, 23, tzinfo=UTC).timestamp()
    marked = Mark(start_s + 5400, "alert", "alert 1 fired", "slow")
    with shown_in(BERLIN):
        chart = drawn([Line("p99", [(start_s, 1.0)])], start_s, start_s + 3 * 3600, 60, [marked])
    assert [tick.words for tick in chart.across] == ["01:00", "02:00", "02:00", "03:00"]
    assert chart.marks[0].when == "2026-10-25 02:30:00 CEST"
    assert chart.values["times"] == ["2026-10-24T23:00:00+00:00"]  # What is copied is UTC and says so.


# -- in a browser ------------------------------------------------------------------------------------------------------


READ = """(title) => {
  const figure = [...document.querySelectorAll("figure.chart")].find((one) => one.textContent.includes(title));
  const slider = figure.querySelector("[role=slider]");
  slider.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
  const readout = figure.querySelector(".readout").textContent;  // Before the map's key moves the moment for both.
  const map = document.querySelector(".heat-map");
  map.querySelector("[role=application]").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
  const table = figure.querySelector(".values");
  if (table.hidden) figure.querySelector("[data-table]").click();
  return {
    values: JSON.parse(slider.dataset.values),
    ticks: [...figure.querySelectorAll(".across text")].map((tick) => tick.textContent),
    readout,
    head: table.querySelector("th").textContent,
    first: table.querySelector("td").textContent,
    map: JSON.parse(map.dataset.heatMap),
    cell: map.querySelector(".readout").textContent,
  };
}"""
"""What a chart and the heat map say, and what of: at one moment, for both go on."""


@pytest.mark.browser
@pytest.mark.parametrize("name", ["Europe/Berlin", "Asia/Kolkata"])
def test_with_a_local_clock_a_chart_speaks_the_readers_time(browser: Browser, stack: Any, name: str) -> None:
    assert stack.complete("def local():\n    return", 12).status_code == 200
    context = signed_in(browser, stack.url, stack.fleet.token("dashboard-token"), timezone_id=name)
    page, zone = context.new_page(), ZoneInfo(name)
    page.goto("/explore?from=now-1h")
    page.get_by_label("Clock").select_option(index=1)
    page.wait_for_url("**timezone=*")
    figure = page.get_by_role("figure", name="Time to first token", exact=True)
    expect(figure.locator("[data-points]")).not_to_have_attribute("data-points", "0")
    expect(page.locator(".heat-map")).to_have_attribute("data-cells", re.compile("[1-9]"))
    said = page.evaluate(READ, "Time to first token")
    start_s, end_s = (datetime.fromisoformat(said["values"][of]).timestamp() for of in ("start", "end"))
    ticks = time_ticks(start_s, end_s, zone=zone)
    assert said["ticks"] == [clock_words(tick, end_s - start_s, zone) for tick in ticks]
    last = datetime.fromisoformat(said["values"]["times"][-1]).astimezone(zone)
    assert re.match(rf"{last:%H:%M:%S} (?!UTC)\S+: p50 ", said["readout"])
    assert re.match(r"Time, (?!UTC)\w+/\w+$", said["head"]) and said["first"].startswith(f"{last:%H:%M:%S} ")
    column_s = said["map"]["step_s"] * said["map"]["cells"][-1][0]
    column = datetime.fromtimestamp(datetime.fromisoformat(said["map"]["start"]).timestamp() + column_s, zone)
    assert re.match(rf"{column:%H:%M:%S} (?!UTC)\S+, ", said["cell"])
    context.close()


STAMPS = """async ([address, times]) => {
  const { stamp, timeCell } = await import(address);
  return times.map((time) => [stamp(Date.parse(time), 0), timeCell(Date.parse(time), 90_000_000)]);
}"""


@pytest.mark.browser
def test_the_crosshair_tells_the_two_hours_of_a_night_apart(browser: Browser, bare: Bare) -> None:
    context = signed_in(browser, bare.url, bare.token(), timezone_id="Asia/Kolkata")
    page = context.new_page()
    times = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-03-29T01:00:00Z"]
    page.goto("/explore?timezone=Europe/Berlin")  # The address says so, wherever the reader is.
    assert page.evaluate(STAMPS, [ASSETS.address("words.js"), times]) == [
        ["02:30:00 CEST", "25 Oct 02:30:00 CEST"],
        ["02:30:00 CET", "25 Oct 02:30:00 CET"],
        ["03:00:00 CEST", "29 Mar 03:00:00 CEST"],
    ]
    page.goto("/explore")
    assert page.evaluate(STAMPS, [ASSETS.address("words.js"), times[:1]]) == [["00:30:00 UTC", "25 Oct 00:30:00"]]
    context.close()

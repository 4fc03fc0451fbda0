"""Explore: one pool's latency as a heat map, what bound it, where it goes, what explains a part of it."""

from dataclasses import replace

from controlplane.client import Client
from web.explore import comparison
from web.explore.box_explained import box_explained
from web.explore.choices import METRICS, NAMES, TAILS, choices_of
from web.explore.decomposition import tail_chart, two_stacks
from web.explore.latency_map import latency_map, two_maps
from web.explore.multiples import FEW, MORE
from web.explore.what_binds import what_binds
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection
from web.pages.chart_parts import parts_chart

ALL_PARTS = parts_chart("All requests")
TAIL_PARTS = Part("tail_parts", tail_chart, 15, "line_chart", "The slowest requests")


def every_chart(selection: Selection) -> bool:
    return choices_of(selection).every


def has_box(selection: Selection) -> bool:
    return choices_of(selection).box is not None


def is_alone(selection: Selection) -> bool:
    return not comparison.has_comparison(selection)


def about(client: Client, selection: Selection) -> Context:
    return {
        "choices": choices_of(selection),
        "sides": comparison.sides_of(selection) if selection.compare else None,
        "metrics": METRICS,
        "names": NAMES,
        "tails": tuple(TAILS),
        "all_parts": ALL_PARTS,
        "tail_parts": TAIL_PARTS,
        "few": FEW,
        "more": MORE,
    }


PAGE = Page(
    "explore",
    "/explore",
    "Explore",
    (
        Part("latency_map", latency_map, 10, when=is_alone),
        Part("two_maps", two_maps, 10, when=comparison.has_comparison),
        Part("what_binds", what_binds, 15),
        Part("box_explained", box_explained, 30, when=has_box),
        *comparison.PARTS_OF_PAGE,
        Part("two_stacks", two_stacks, 15),
        ALL_PARTS,
        TAIL_PARTS,
        *FEW,
        *(replace(part, when=every_chart) for part in MORE),
    ),
    key="e",
    one_pool=True,
    scripts=("charts.js", "heat_map.js", "ribbon.js", "explore.js"),
    own=choices_of,
    whole=about,
)

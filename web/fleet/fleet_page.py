"""The fleet: one cell a node, coloured by what the reader chooses, and a table that is sorted and filtered here."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from controlplane.client import Client
from web.drawing.node_cells import Node, node_cells
from web.drawing.units import share_words
from web.fleet.fleet_labels import BY_LABEL, label_of, offered_labels, row_labels, selector_of, values_of
from web.fleet.fleet_rows import (
    A_PAGE,
    STATES,
    Fleet,
    counted,
    filtered,
    fleet_of,
    in_state,
    length_words,
    ordered,
    since_s,
    wanted_of,
)
from web.frame.format import seconds
from web.frame.own_parameters import one_of
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection

CELLS_EVERY_S, TABLE_EVERY_S = 30.0, 10.0
GROUPS = {"pool": "pool", "region": "region", "config": "configuration"}


@dataclass(frozen=True)
class Figure:
    """What cells can tell. `name` as in a sentence, `words` of a value."""

    title: str
    name: str
    words: Callable[[float], str]


FIGURES = {
    "p99": Figure("p99 time to first token", "p99 time to first token", seconds),
    "drift": Figure(
        "differing from what is wanted", "time of differing", lambda s: length_words(s) if s else "as wanted"
    ),
    "kv": Figure("KV cache in use", "KV cache in use", share_words),
    "pressure": Figure("host pressure", "host pressure", share_words),
}
HEADS = (
    *(("node", "Node", False), ("pool", "Pool", False), ("state", "State", False), ("revision", "Revision", True)),
    *(("p99", "TTFT p99", True), ("kv", "KV", True), ("running", "Running", True), ("waiting", "Waiting", True)),
    *(("drift", "Differs", False), ("unaccounted", "Unaccounted", True), ("seen", "Seen", False)),
)
"""Columns of the table: as the address sorts by them, their heads, and whether they are numbers."""
LARGEST_FIRST = ("p99", "kv", "running", "waiting", "unaccounted", "revision")
"""Whose first click sorts downwards: the largest is what is looked for."""


def read(client: Client, selection: Selection) -> Fleet:
    """The whole fleet, whatever the filters: one answer for all who look."""
    return fleet_of(client.fleet(), client.node_figures(**selection.span))


def own(selection: Selection) -> None:
    """Raises `BadRequest` that names the parameter."""
    cells_of(selection)
    wanted_of(selection)


def cells_of(selection: Selection) -> tuple[str, str]:
    """What a cell tells, and by what cells are grouped."""
    by = selection.own.get("by", "pool")
    if not label_of(by):
        one_of(selection, "by", (*GROUPS, f"{BY_LABEL}NAME"), "pool")
    return one_of(selection, "figure", FIGURES, "p99"), by


def cells(client: Client, selection: Selection) -> Context:
    """One cell a node, of those that the bar's filters, the selector and the search let in."""
    figure, group = cells_of(selection)
    fleet = read(client, selection)
    told = fleet.told
    differing: list[float | None] = [since_s(since, selection.now) for since in told.drift_since]
    values = {
        "p99": fleet.measured["ttft_p99"],
        "drift": differing,
        "kv": fleet.measured["kv_usage"],
        "pressure": fleet.measured["host_pressure"],
    }[figure]
    label = label_of(group)
    if label:
        column, kind, nameless = values_of(told, label), label, f"no label {label}"
    else:
        column = {"pool": told.pool, "region": fleet.region, "config": told.config_hash}[group]
        kind, nameless = GROUPS[group], f"no {GROUPS[group]} told"
    names = {of: f"{kind} {of}" if of else nameless for of in set(column)}
    shown = filtered(fleet, selection, wanted_of(selection).search)
    nodes = [Node(told.node[at], names[column[at]], values[at], told.state[at].value) for at in shown]
    chosen = FIGURES[figure]
    return {
        "cells": node_cells(nodes, chosen.name, chosen.words),
        "title": f"Nodes by {chosen.title}",
        "figures": [(of.title, selection.query(figure=name), name == figure) for name, of in FIGURES.items()],
        "groups": [(words, selection.query(by=name), name == group) for name, words in GROUPS.items()],
        "labels": [
            (name, selection.query(by=f"{BY_LABEL}{name}"), name == label) for name in offered_labels(told, label)
        ],
    }


def table(client: Client, selection: Selection) -> Context:
    """One page of the nodes, sorted and filtered as the address says."""
    wanted = wanted_of(selection)
    fleet = read(client, selection)
    searched = filtered(fleet, selection, wanted.search)
    counts = counted(fleet, searched)
    places = ordered(fleet, in_state(fleet, searched, wanted.state), wanted.sort, wanted.descending)
    pages = max(1, math.ceil(len(places) / A_PAGE))
    page = min(wanted.page, pages)
    first = (page - 1) * A_PAGE
    return {
        "rows": [row(fleet, at, selection) for at in places[first : first + A_PAGE]],
        "count": len(places),
        "whole": len(fleet),
        "first": first,
        "page": page,
        "pages": pages,
        "before": selection.query(page=None if page == 2 else str(page - 1)) if page > 1 else "",
        "after": selection.query(page=str(page + 1)) if page < pages else "",
        "states": [("all", len(searched), selection.query(state=None, page=None), not wanted.state)]
        + [
            (state.replace("_", " "), counts[state], selection.query(state=state, page=None), state == wanted.state)
            for state in STATES
            if counts[state] or state == wanted.state
        ],
        "heads": [head(selection, wanted.sort, wanted.descending, *of) for of in HEADS],
        "problem": selector_of(selection)[1],
        "unfiltered": selection.query(
            **dict.fromkeys(("state", "q", "selector", "page", "pool", "node", "revision", "model"))
        ),
    }


def row(fleet: Fleet, at: int, selection: Selection) -> dict[str, Any]:
    """All that the table writes of the node at this place."""
    told = fleet.told
    return {name: getattr(told, name)[at] for name in type(told).model_fields if name != "label_sets"} | {
        **{name: column[at] for name, column in fleet.measured.items()},
        **row_labels(told.label_sets[told.labels[at]], selection),
        "adopted": not told.revision[at] and told.desired_revision[at] and told.drift_since[at] is None,
    }


def head(
    selection: Selection, sort: str, descending: bool, name: str, words: str, number: bool
) -> tuple[str, str, str, bool]:
    """A column's head: its words, where a click leads, its `aria-sort` (empty: not sorted by it), whether numbers."""
    if name == sort:
        return words, selection.query(sort=name if descending else f"-{name}", page=None), _way(descending), number
    return words, selection.query(sort=f"-{name}" if name in LARGEST_FIRST else name, page=None), "", number


def whole(_: Client, selection: Selection) -> Context:
    return {"selector_problem": selector_of(selection)[1]}


def _way(descending: bool) -> str:
    return "descending" if descending else "ascending"


PAGE = Page(
    "fleet",
    "/fleet",
    "Fleet",
    (Part("fleet_cells", cells, CELLS_EVERY_S), Part("fleet", table, TABLE_EVERY_S)),
    key="f",
    own=own,
    whole=whole,
    scripts=("node_cells.js",),
)

"""Rollouts: the list, by pool, by how they are and by time, all of it in its address."""

from collections.abc import Callable

from controlplane.client import Client
from controlplane.contract.bodies.rollouts import ENDED, WAITS_FOR_A_PERSON, Rollout, RolloutPhase
from controlplane.contract.duration_text import duration_text
from web.access.viewer import may_operate
from web.frame.own_parameters import one_of
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection

A_PAGE = 50
STATES: dict[str, tuple[str, Callable[[Rollout], bool]]] = {
    "": ("All", lambda _: True),
    "waiting": ("Waiting for a person", lambda one: one.phase in WAITS_FOR_A_PERSON),
    "under_way": ("Under way", lambda one: one.phase not in ENDED | WAITS_FOR_A_PERSON),
    "promoted": ("Promoted", lambda one: one.phase is RolloutPhase.PROMOTED),
    "went_back": ("Went back", lambda one: one.phase is RolloutPhase.ROLLED_BACK),
    "failed": ("Failed or cancelled", lambda one: one.phase in (RolloutPhase.FAILED, RolloutPhase.CANCELLED)),
}
"""By the address' word: what the choice is called, and which rollouts are of it."""


def state_of(selection: Selection) -> str:
    """Raises `BadRequest` for one that there is not."""
    return one_of(selection, "state", STATES, "")


def rollouts(client: Client, selection: Selection) -> Context:
    """Those of the pool, the state and the time that the address says."""
    here = [one for one in client.rollouts() if selection.pool in (None, one.spec.pool)]
    timely = [one for one in here if selection.covers(one.created_at, one.ended_at)]
    state = state_of(selection)
    found = [one for one in timely if STATES[state][1](one)]
    every = selection.own.get("show") == "all"
    return {
        "rollouts": [(one, took(one)) for one in (found if every else found[:A_PAGE])],
        "more": 0 if every else max(len(found) - A_PAGE, 0),
        "all": selection.query(show="all"),
        "narrowed": len(found) < len(here) or selection.pool is not None,
        "unfiltered": selection.query(state=None, pool=None, **{"from": None, "to": None}) or "?",
        "state": state,
        "states": [
            (name, words, sum(map(is_of, timely)), selection.query(state=name or None, show=None) or "?")
            for name, (words, is_of) in STATES.items()
        ],
        "may_operate": may_operate(client),
    }


def took(one: Rollout) -> str:
    """From its start to its end; empty for what has not begun or lasts."""
    if one.started_at is None or one.ended_at is None:
        return ""
    took_s = (one.ended_at - one.started_at).total_seconds()
    return (
        f"{took_s / 3600:.1f} h"
        if took_s >= 7200
        else f"{took_s / 60:.0f} min"
        if took_s >= 120
        else duration_text(took_s)
    )


LIST = Page("rollouts", "/rollouts", "Rollouts", (Part("rollouts", rollouts),), key="r", any_time=True, own=state_of)

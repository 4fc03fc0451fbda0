"""The table of an incident's life, and the timing that picks the signal."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import Conflict
from controlplane.contract.on_call.incidents import IncidentState
from controlplane.incidents import machine
from controlplane.incidents.machine import TRANSITIONS, Signal, after
from tests.controlplane.incidents.conftest import START


@pytest.mark.parametrize("state", IncidentState)
def test_every_state_but_the_first_is_reached_and_merged_is_for_good(state: IncidentState) -> None:
    assert state is IncidentState.OPEN or state in TRANSITIONS.values()
    leaves = {target for (source, _), target in TRANSITIONS.items() if source is state}
    assert (leaves == set()) == (state is IncidentState.MERGED)


def test_what_cannot_happen_is_refused_in_words() -> None:
    with pytest.raises(Conflict, match="an incident that is merged cannot be told to acknowledge"):
        after(IncidentState.MERGED, Signal.ACKNOWLEDGE)
    with pytest.raises(Conflict):
        after(IncidentState.RESOLVED, Signal.SETTLE)


@given(st.lists(st.sampled_from(Signal), max_size=12))
def test_only_a_fire_ends_the_quiet_of_a_resolved_one(signals: list[Signal]) -> None:
    state = IncidentState.OPEN
    for signal in signals:
        try:
            new = after(state, signal)
        except Conflict:
            continue
        if state is IncidentState.RESOLVED and new not in (IncidentState.RESOLVED, IncidentState.MERGED):
            assert signal is Signal.FIRE and new is IncidentState.OPEN
        assert state is not IncidentState.MERGED
        state = new


def test_it_settles_when_it_has_been_quiet_for_long_enough() -> None:
    ends = [START, START + timedelta(seconds=30)]
    quiet = machine.quiet_from(0, ends, None)
    assert quiet == ends[1]
    assert machine.quiet_from(1, ends, quiet) is None
    assert machine.quiet_from(0, ends, START) == START, "what began the quiet stays"
    assert not machine.has_settled(quiet, quiet + machine.SETTLE - timedelta(seconds=1))
    assert machine.has_settled(quiet, quiet + machine.SETTLE) and not machine.has_settled(None, START)

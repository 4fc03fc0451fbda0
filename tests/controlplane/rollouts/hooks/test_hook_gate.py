"""Whether hooks let a rollout go on: all must agree; who halts, or is silent and held for, keeps it; some end it."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.changes.hooks import HookState, OnSilence
from controlplane.rollouts.decision import OPEN
from controlplane.rollouts.hooks.hook_gate import Asked, gate_of

hooks = st.lists(
    st.builds(
        Asked,
        st.integers(1, 9),
        st.text(min_size=1, max_size=5),
        st.sampled_from(OnSilence),
        st.none() | st.sampled_from(HookState),
        st.text(max_size=5),
    ),
    max_size=4,
)


@given(hooks)
def test_it_is_open_only_when_nobody_stands_in_the_way(asked: list[Asked]) -> None:
    gate = gate_of(asked)
    agreed = [
        one.state is HookState.GO or (one.state is HookState.SILENT and one.on_silence is OnSilence.PROCEED)
        for one in asked
    ]
    assert (gate == OPEN) == all(agreed)
    ends = any(one.state is HookState.SILENT and one.on_silence is OnSilence.ROLL_BACK for one in asked)
    assert (gate.back is not None) == ends
    if gate.waits is not None:
        assert gate.unasked == tuple(one.hook_id for one in asked if one.state is None)


def test_who_halts_is_named_before_who_is_asked_still() -> None:
    waiting = Asked(1, "first", OnSilence.HOLD)
    halting = Asked(2, "second", OnSilence.HOLD, HookState.HALT, "not now")
    assert gate_of([waiting, halting]).waits == "hook second wants it to wait: not now"

"""A lease by itself: what counts is the silence, on a clock that nobody can set."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agents.agent.control.lease import Lease
from agents.agent.control.offer import WantedConfig
from agents.host.boot_clock import BootTime, boot_time
from controlplane.contract.knobs import EngineConfig

DURATION_S = 60.0
BEGUN = Lease(b"7", WantedConfig(3, EngineConfig()), DURATION_S, BootTime("boot", 1000.0))
STEPS = st.lists(st.tuples(st.sampled_from(["silence", "heard"]), st.integers(0, 90)))


@given(STEPS)
def test_it_is_over_once_the_silence_has_lasted_as_long_and_stays_over(steps: list[tuple[str, int]]) -> None:
    lease, now_s, silent_s, over = BEGUN, 1000.0, 0.0, False
    for kind, seconds in steps:
        now_s, silent_s = now_s + seconds, silent_s + seconds
        over = over or silent_s >= DURATION_S
        if kind == "heard":
            lease, silent_s = lease.renewed(BootTime("boot", now_s)), 0.0
        now = BootTime("boot", now_s)
        assert lease.is_over(now) == over
        assert lease.left_s(now) == (0.0 if over else DURATION_S - silent_s)


@given(st.floats(0, 1e9))
def test_one_from_before_the_machine_s_last_start_is_over(at_s: float) -> None:
    now = BootTime("another boot", at_s)
    assert BEGUN.is_over(now)
    assert BEGUN.renewed(now).is_over(now), "whatever is heard then"


def test_one_from_the_future_of_its_clock_is_over() -> None:
    assert BEGUN.is_over(replace(BEGUN.heard, at_s=999.9))


def test_the_clock_only_goes_on_and_keeps_its_boot() -> None:
    first, second = boot_time(), boot_time()
    assert first.boot == second.boot and first.boot
    assert first.at_s <= second.at_s

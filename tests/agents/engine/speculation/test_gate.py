"""The gate in a made-up engine: near the best length soon, off when drafting loses, back when it pays again."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.speculation.gate import LONGEST_PAUSE, OPEN_WITHIN, Gate, Track, best_length
from agents.engine.speculation.step_costs import FORGET_AFTER

Share = Callable[[int], float]
"""The share of drafts kept at any place, by how many tokens the request has given."""


@dataclass
class World:
    """Costs in milliseconds. verify: by requests and drafts."""

    verify: Callable[[int, int], float]
    a_pass: float = 0.0
    pace: Callable[[int], float] = lambda step: 1.0


@dataclass
class Request:
    share: Share
    track: Track = field(default_factory=Track)
    outputs: int = 1
    drafted: list[int] = field(default_factory=list)


@dataclass
class Served:
    """drafted: by step; lost: milliseconds more than without drafts; start_over: the step after which all is well."""

    drafted: list[int] = field(default_factory=list)
    lost: float = 0.0
    start_over: int | None = None

    def opened_after(self) -> int:
        """Steps from the end of the start until most of forty steps have drafts."""
        first = self.start_over or 0
        return next(
            step - first
            for step in range(first, len(self.drafted) - 40)
            if sum(count > 0 for count in self.drafted[step : step + 40]) >= 30
        )


def run(gate: Gate | None, world: World, requests: list[Request], limit: int, steps: int, seed: int = 0) -> float:
    """Tokens per millisecond. gate None: always `limit`."""
    draw = random.Random(seed)
    tokens, elapsed = 0, 0.0
    for step in range(steps):
        drafts = [limit] * len(requests)
        if gate is not None:
            gate.begin(len(requests), limit)
            for place, request in enumerate(requests):
                is_open = gate.is_open(request.track, request.outputs)
                drafts[place] = gate.allow(request.track, request.outputs) if is_open else 0
                assert 0 <= drafts[place] <= limit
        for request, count in zip(requests, drafts, strict=True):
            kept = 0
            while kept < count and draw.random() < request.share(request.outputs):
                kept += 1
            if gate is not None and count:
                gate.outcome(request.track, count, kept)
            request.outputs += kept + 1
            request.drafted.append(count)
            tokens += kept + 1
        noise = world.pace(step) * draw.uniform(0.95, 1.05) * (3.0 if draw.random() < 0.02 else 1.0)
        verify, draft = world.verify(len(requests), sum(drafts)) * noise, world.a_pass * max(drafts) * noise
        elapsed += verify + draft
        if gate is not None:
            gate.observe(verify, draft, drafts, 0)
    return tokens / elapsed


def like(share: float, count: int = 1) -> list[Request]:
    return [Request(lambda outputs: share) for _ in range(count)]


def small_model(requests: int, drafts: int) -> float:
    """Free to eight rows, then in proportion (as measured on two cores, batch 1 to 16)."""
    return 10.0 * max(1.0, 0.5 + (requests + drafts) / 16)


WORLDS: dict[str, tuple[World, float, int, int]] = {  # Costs, share kept, requests, the knob.
    "n-gram on code, alone": (World(small_model), 0.9, 1, 8),
    "n-gram on prose, alone": (World(small_model), 0.55, 1, 8),
    "n-gram on code, four": (World(small_model), 0.9, 4, 8),
    "a request among sixteen": (World(small_model), 0.6, 16, 4),
    "a good draft model": (World(small_model, a_pass=1.0), 0.8, 1, 8),
    "a slow draft model": (World(small_model, a_pass=8.0), 0.6, 1, 4),
    "early exit that knows nothing": (World(small_model, a_pass=4.0), 0.05, 1, 8),
    "verification is dear": (World(lambda requests, drafts: 5.0 * requests + 5.0 * drafts), 0.7, 2, 4),
    "everything is kept": (World(small_model, a_pass=0.2), 1.0, 2, 16),
}


@pytest.mark.parametrize("name", WORLDS)
def test_comes_near_the_best_fixed_length(name: str) -> None:
    world, share, count, knob = WORLDS[name]
    best = max(run(None, world, like(share, count), length, 1500) for length in range(knob + 1))
    assert run(Gate(), world, like(share, count), knob, 1500) > 0.9 * best


@pytest.mark.parametrize("name", ["early exit that knows nothing", "a slow draft model", "verification is dear"])
def test_is_off_within_a_few_steps_where_drafting_loses(name: str) -> None:
    world, share, count, knob = WORLDS[name]
    requests = like(share, count)
    run(Gate(), world, requests, knob, 400)
    for request in requests:
        assert sum(length > 0 for length in request.drafted[20:]) < 0.06 * 380


def test_costs_next_to_nothing_where_drafting_loses() -> None:
    world, share, count, knob = WORLDS["early exit that knows nothing"]
    assert run(Gate(), world, like(share, count), knob, 1000) > 0.95 * run(None, world, like(share, count), 0, 1000)


def test_finds_its_length_within_a_few_steps() -> None:
    request = like(0.9)[0]
    run(Gate(), World(small_model), [request], 8, 24)
    assert min(request.drafted[1:]) >= 5


def test_drafts_again_when_the_content_changes() -> None:
    world = World(small_model, a_pass=1.0)
    request = Request(lambda outputs: 0.02 if outputs < 200 else 0.95)
    run(Gate(), world, [request], 8, 500)
    changed = next(step for step in range(len(request.drafted)) if step > 150 and request.drafted[step] >= 4)
    assert changed < 200 + 80
    assert min(request.drafted[-30:]) >= 4


def test_a_new_request_starts_from_what_others_have_shown() -> None:
    gate, world = Gate(), World(small_model, a_pass=4.0)
    run(gate, world, like(0.05), 8, 200)
    newcomer = like(0.05)[0]
    run(gate, world, [newcomer], 8, 30)
    assert sum(newcomer.drafted) <= 2 * 4


def test_requests_are_judged_one_by_one() -> None:
    good, bad = like(0.95)[0], like(0.02)[0]
    world = World(lambda requests, drafts: 10.0 + drafts, a_pass=0.1)
    run(Gate(), world, [good, bad], 4, 400)
    assert sum(good.drafted[50:]) > 3 * 330 and sum(bad.drafted[50:]) < 0.1 * 350 * 4


def test_a_machine_that_slows_down_for_a_while_shuts_nobody_off() -> None:
    world = World(small_model, a_pass=0.5, pace=lambda step: 3.0 if 100 <= step < 300 else 1.0)
    request = like(0.85)[0]
    run(Gate(), world, [request], 6, 500)
    assert sum(length == 0 for length in request.drafted) <= 12


def test_decisions_are_counted_and_repeat() -> None:
    first, second = Gate(), Gate()
    world, share, count, knob = WORLDS["n-gram on prose, alone"]
    assert run(first, world, like(share, count), knob, 300) == run(second, world, like(share, count), knob, 300)
    assert first.decisions == second.decisions and first.decisions.on == 1 and first.decisions.steps_measured >= 1


class TestTakingIn:
    """What a draft model must take in first has to come back in the tokens that are left."""

    def gate(self) -> Gate:
        gate = Gate()
        run(gate, World(small_model, a_pass=1.0), like(0.8), 4, 100)
        gate.observe(10.0, 1000 * 0.5, [0], 1000)  # Half a millisecond for each token taken in.
        return gate

    def test_many_outputs_pay_for_it_and_few_do_not(self) -> None:
        gate = self.gate()
        assert gate.is_worth_taking_in(Track(), 1000, outputs_left=400)
        assert not gate.is_worth_taking_in(Track(), 1000, outputs_left=8)
        assert gate.is_worth_taking_in(Track(), 10, outputs_left=8)

    def test_requests_that_end_early_as_a_rule_do_not_pay_for_it(self) -> None:
        gate = self.gate()
        for _ in range(50):
            gate.finished(6)
        assert not gate.is_worth_taking_in(Track(), 1000, outputs_left=400)


def test_the_best_length_and_its_margin() -> None:
    extra = [0.0, 0.9, 1.6]
    assert best_length(extra, [1.0, 1.0, 1.0], 1.0, -1) == 2
    assert best_length(extra, [1.0, 2.0, 3.0], 1.0, -1) == 0
    assert best_length(extra, [1.0, 1.87, 9.0], 1.0, 0) == 0  # Better, but not by the margin.
    assert best_length(extra, [1.0, 1.5, 9.0], 1.0, 0) == 1
    assert best_length(extra, [1.0, 1.5, 9.0], 1.0, 5) == 1  # The knob was lowered below the current length.


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4),
    st.floats(0.0, 5.0),
    st.floats(0.0, 20.0),
    st.integers(1, 12),
    st.integers(0, 2**16),
)
def test_keeps_the_knob_and_never_shuts_for_ever(
    shares: list[float], slope: float, a_pass: float, knob: int, seed: int
) -> None:
    requests = [Request(lambda outputs, share=share: share) for share in shares]  # type: ignore[misc]
    world = World(lambda count, drafts: 10.0 + slope * drafts, a_pass)
    run(Gate(), world, requests, knob, 150, seed)  # The limit is asserted within.
    for request in requests:
        assert request.track.resume_at <= request.outputs + LONGEST_PAUSE


Moment = tuple[float, float]
"""How a step with drafts goes while the start is bad: its cost over what it should be, and the share kept."""


def serve(gate: Gate, world: World, share: float, start: list[Moment], limit: int, length: int, steps: int) -> Served:
    """Requests of `length` tokens one after another; the first steps with drafts go as `start` says."""
    draw, left, served = random.Random(1), list(start), Served()
    request = like(share)[0]
    for step in range(steps):
        gate.begin(1, limit)
        count = gate.allow(request.track, request.outputs) if gate.is_open(request.track, request.outputs) else 0
        factor, chance = left.pop(0) if left and count else (1.0, share)
        kept = 0
        while kept < count and draw.random() < chance:
            kept += 1
        if count:
            gate.outcome(request.track, count, kept)
        seconds = world.verify(1, count) * factor * draw.uniform(0.95, 1.05)
        gate.observe(seconds, world.a_pass * count, [count], 0)
        served.drafted.append(count)
        served.lost += seconds + world.a_pass * count - (kept + 1) * world.verify(1, 0)
        if not left and served.start_over is None:
            served.start_over = step
        request.outputs += kept + 1
        if request.outputs >= length:
            gate.finished(request.outputs)
            request = like(share)[0]
    return served


def test_a_bad_start_does_not_shut_the_gate_for_requests_to_come() -> None:
    """Five first drafts that cost ten times what they should, requests shorter than a long pause."""
    served = serve(Gate(), World(small_model), 0.85, [(10.0, 0.0)] * 5, 4, 60, 2000)
    assert served.opened_after() < 300


@pytest.mark.slow
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from((0.1, 1.0, 3.0, 10.0, 100.0)), st.sampled_from((0.0, 1.0))), max_size=10),
    st.sampled_from((2, 4, 8)),
    st.sampled_from((10, 20, 60, 300)),
    st.sampled_from((0.0, 0.5)),
)
def test_the_gate_opens_where_drafts_pay_whatever_the_start(
    start: list[Moment], limit: int, length: int, a_pass: float
) -> None:
    served = serve(Gate(), World(small_model, a_pass), 0.85, start, limit, length, 3 * OPEN_WITHIN)
    assert served.start_over is not None and served.opened_after() <= OPEN_WITHIN


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.sampled_from((1.2, 3.0, 4.5, 20.0)), st.sampled_from((20, 60, 2000)), st.integers(0, 20))
def test_where_drafts_never_pay_little_is_lost_whatever_the_start(dear: float, length: int, lucky: int) -> None:
    """A draft costs `dear` steps; the first ones were cheap and kept."""
    world = World(lambda requests, drafts: 10.0 if not drafts else 10.0 * dear)
    steps = 4000
    served = serve(Gate(), world, 0.03, [(0.1, 1.0)] * lucky, 4, length, steps)
    # Of the time without drafts; and what it takes to find that the start was luck.
    assert served.lost < 0.06 * steps * 10.0 + 40 * 10.0 * dear


@pytest.mark.slow
def test_a_draft_model_that_seemed_slow_to_take_in_is_tried_again() -> None:
    gate = Gate()
    run(gate, World(small_model, a_pass=1.0), like(0.8), 4, 100)
    for _ in range(15):
        gate.observe(10.0, 1000 * 500.0, [0], 1000)  # A thousand times what it takes.
    assert not gate.is_worth_taking_in(Track(), 1000, outputs_left=400)
    tried = 0
    for _ in range(12 * FORGET_AFTER):
        gate.begin(1, 4)
        gate.observe(10.0, 0.0, [0], 0)
        if gate.is_worth_taking_in(Track(), 1000, outputs_left=400):
            gate.observe(10.0, 1000 * 0.5, [0], 1000)
            tried += 1
    assert tried > 8 and gate.is_worth_taking_in(Track(), 1000, outputs_left=400)

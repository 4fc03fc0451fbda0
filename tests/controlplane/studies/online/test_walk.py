"""Steps in production, whatever comes of them: within one step of what was proven, one at a time, and to an end."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.knobs import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    EngineConfig,
    canonical_json,
)
from controlplane.contract.planning.online_mode import StepOutcome
from controlplane.studies.online.next_values import Reach, effect, neighbour, reach_of
from controlplane.studies.online.walk import Bounds, Direction, Move, Over, Seen, TakeBack, Taken, Wait, Walk

START = EngineConfig().knobs()
FREE = Seen(under_way=False, age_s=0.0)
BETTER, SAFE, WORSE, UNDECIDED, STOPPED = StepOutcome
LIVE = [MAX_NUM_BATCHED_TOKENS, PREFILL_CHUNK_SIZE, MAX_NUM_SEQS, NUM_SPECULATIVE_TOKENS]


def bounds(*knobs: str, steps: int = 1000, back: int = 100, step: float = 1.25, vllm: bool = False) -> Bounds:
    return Bounds({knob: reach_of(knob, None) for knob in knobs}, step, steps, back, 3600.0, vllm)


def after(walk: Walk, outcome: StepOutcome, *first: Direction) -> Walk:
    taken = (*walk.taken, Taken(walk.moves(first)[0], outcome))
    return Walk(walk.start, walk.bounds, taken)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(LIVE), min_size=1, unique=True),
    st.lists(st.tuples(st.sampled_from(StepOutcome), st.sampled_from(LIVE), st.booleans()), max_size=40),
    st.integers(1, 12),
    st.sampled_from([1.1, 1.25, 2.0, 4.0]),
    st.booleans(),
)
def test_the_promises_hold_whatever_comes_of_the_steps(
    knobs: list[str], outcomes: list[tuple[StepOutcome, str, bool]], back: int, step: float, vllm: bool
) -> None:
    walk = Walk(START, bounds(*knobs, steps=30, back=back, step=step, vllm=vllm))
    proven, tried = {canonical_json(START)}, {canonical_json(START)}
    barred: list[Move] = []
    for outcome, knob, up in outcomes:
        decided = walk.advance(FREE)
        if decided is not None:
            assert isinstance(decided, Over)
            break
        move = walk.moves([Direction(knob, up)])[0]
        runs = walk.centre
        assert canonical_json(runs) in proven
        ways = [neighbour(move.knob, runs, walk.bounds.reach[move.knob], step, up=way) for way in (True, False)]
        assert move.value in ways and move.before == runs[move.knob]
        knobs_then = {**runs, move.knob: move.value}
        assert canonical_json(knobs_then) not in tried
        assert not vllm or knobs_then[MAX_NUM_BATCHED_TOKENS] >= knobs_then[MAX_NUM_SEQS]
        for one in barred:
            if one.knob == move.knob:
                beyond = effect(move.knob, move.value) - effect(one.knob, one.value)
                assert (beyond < 0) if one.direction.up else (beyond > 0)
        tried.add(canonical_json(knobs_then))
        if outcome is BETTER:
            proven.add(canonical_json(knobs_then))
        if outcome in (WORSE, STOPPED):
            barred.append(move)
        walk = Walk(START, walk.bounds, (*walk.taken, Taken(move, outcome)))
    assert len(walk.taken) <= 30 and walk.taken_back <= back


@pytest.mark.parametrize("outcome", [SAFE, WORSE, UNDECIDED, STOPPED])
def test_it_ends_by_itself_where_nothing_is_better(outcome: StepOutcome) -> None:
    walk = Walk(START, bounds(*LIVE))
    for _ in range(20):
        if walk.advance(FREE) is not None:
            break
        walk = after(walk, outcome)
    assert walk.advance(FREE) == Over("nothing is left to try one step from what runs")
    assert walk.centre == START and len(walk.taken) == 6  # Down of 0 drafts and up of no chunk there is nothing.


def test_it_goes_on_the_way_that_was_better_then_back_from_no_value_twice() -> None:
    walk = Walk({**START, MAX_NUM_SEQS: 4}, Bounds({MAX_NUM_SEQS: Reach(1, 4096, (4, 8, 16, 32))}, 1.25, 9, 9, 60.0))
    for outcome in (BETTER, BETTER, WORSE):
        walk = after(walk, outcome)
    assert [one.move.value for one in walk.taken] == [8, 16, 32]
    assert walk.centre[MAX_NUM_SEQS] == 16
    assert walk.advance(FREE) == Over("nothing is left to try one step from what runs")


@pytest.mark.parametrize(("outcome", "again"), [(WORSE, False), (STOPPED, False), (SAFE, True), (UNDECIDED, True)])
def test_only_a_value_that_was_not_bad_is_tried_from_a_better_centre(outcome: StepOutcome, again: bool) -> None:
    rises = Direction(MAX_NUM_SEQS, up=True)
    walk = after(Walk(START, bounds(MAX_NUM_SEQS, MAX_NUM_BATCHED_TOKENS)), outcome, rises)
    assert rises not in [move.direction for move in walk.moves()]  # The very same is not tried twice.
    walk = after(walk, BETTER, Direction(MAX_NUM_BATCHED_TOKENS, up=True))
    assert (rises in [move.direction for move in walk.moves()]) is again


def test_what_binds_is_looked_at_first_then_its_other_way() -> None:
    moves = Walk(START, bounds(*LIVE)).moves([Direction(MAX_NUM_SEQS, up=False), Direction("quantization", up=True)])
    assert moves[0] == Move(MAX_NUM_SEQS, 32, 26)
    assert [(one.knob, a.value, b.value) for one, (a, b) in zip(moves[1:2], pairwise(moves[1:3]), strict=True)] == [
        (MAX_NUM_BATCHED_TOKENS, 640, 410)
    ]


@pytest.mark.parametrize(
    ("steps", "back", "seen", "decided"),
    [
        (9, 9, FREE, None),
        (9, 9, Seen(under_way=True, age_s=9e9), Wait("a step is under way")),  # It ends in its own time.
        (9, 9, Seen(under_way=True, age_s=0, incident="fire", moved="x"), TakeBack("fire")),
        (9, 9, Seen(under_way=False, age_s=0, incident="fire", closed="night", busy="x"), Wait("fire")),
        (9, 9, Seen(under_way=False, age_s=0, closed="night", busy="rollout 3"), Wait("night")),
        (9, 9, Seen(under_way=False, age_s=0, busy="rollout 3"), Wait("rollout 3")),
        (9, 9, Seen(under_way=False, age_s=3600, busy="rollout 3"), Over("3600 s are over")),
        (9, 9, Seen(under_way=False, age_s=0, moved="ann did", incident="fire"), Over("ann did")),
        (2, 9, FREE, Over("2 steps were taken")),
        (9, 1, FREE, Over("1 step was taken back")),
    ],
)
def test_when_a_step_begins(steps: int, back: int, seen: Seen, decided: object) -> None:
    walk = Walk(START, bounds(*LIVE, steps=steps, back=back))
    walk = after(after(walk, BETTER), WORSE)
    assert walk.advance(seen) == decided


def test_a_step_of_fewer_tokens_than_drafts_want_is_none() -> None:
    start = {**START, MAX_NUM_BATCHED_TOKENS: 4, NUM_SPECULATIVE_TOKENS: 3}
    moves = Walk(start, bounds(NUM_SPECULATIVE_TOKENS, MAX_NUM_BATCHED_TOKENS)).moves()
    assert {(move.knob, move.value) for move in moves} == {(NUM_SPECULATIVE_TOKENS, 2), (MAX_NUM_BATCHED_TOKENS, 5)}

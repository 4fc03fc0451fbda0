"""The cheapest way to a configuration, and why."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.backends.vllm.managed.change_plan import Room, Running, Way, plan
from agents.backends.vllm.node_file import StandbyUse
from controlplane.contract.knobs import EngineConfig, Quantization

CAPACITY = {"max_num_batched_tokens": 1024, "max_num_seqs": 16, "num_speculative_tokens": 4}
LIVE = ["max_num_batched_tokens", "prefill_chunk_size", "max_num_seqs", "num_speculative_tokens"]
NOW = EngineConfig(max_num_batched_tokens=512, max_num_seqs=8)
ROOMY, TIGHT = Room(needs=2 * 2**30, free=8 * 2**30), Room(needs=2 * 2**30, free=2**30)


def runs(config: EngineConfig = NOW, revision: int = 3, live: list[str] = LIVE) -> Running:
    values = config.knobs()
    told: dict[str, Any] = {"revision": revision, "live": live, "capacity": CAPACITY}
    told["quantization"] = values.pop("quantization")
    return Running(config, revision, {**told, "knobs": values})


def test_what_is_in_force_needs_nothing() -> None:
    assert plan(NOW, 3, runs(), StandbyUse.AUTO, ROOMY).way is Way.NOTHING


def test_another_revision_of_the_same_knobs_is_told_to_the_scheduler() -> None:
    assert plan(NOW, 4, runs(), StandbyUse.AUTO, ROOMY).way is Way.LIVE


def test_within_the_capacity_a_change_is_live() -> None:
    wanted = EngineConfig(max_num_batched_tokens=1024, max_num_seqs=16, num_speculative_tokens=((2, 4), (8, 1)))
    assert plan(wanted, 4, runs(), StandbyUse.ALWAYS, ROOMY).way is Way.LIVE


@pytest.mark.parametrize(
    ("use", "room", "way", "why"),
    [
        (StandbyUse.AUTO, ROOMY, Way.STANDBY, "a standby fits: it needs 2.0 GiB of memory, 8.0 GiB are free"),
        (StandbyUse.AUTO, TIGHT, Way.RESTART, "no standby: it needs 2.0 GiB of memory, 1.0 GiB are free"),
        (StandbyUse.AUTO, Room(None, 1, "a GPU"), Way.RESTART, "no standby: a GPU; set standby_needs_bytes"),
        (StandbyUse.ALWAYS, TIGHT, Way.STANDBY, "standby = always"),
        (StandbyUse.NEVER, ROOMY, Way.RESTART, "standby = never"),
    ],
)
def test_beyond_it_memory_and_the_node_file_decide(use: StandbyUse, room: Room, way: Way, why: str) -> None:
    made = plan(EngineConfig(max_num_seqs=17), 4, runs(), use, room)
    assert made.way is way
    assert made.reasons[0].startswith("max_num_seqs: 17 is above 16")
    assert why in made.reasons[-1]


def test_every_knob_that_is_in_the_way_is_named() -> None:
    update = {"max_num_batched_tokens": 2048, "quantization": Quantization.INT8, "num_speculative_tokens": 2}
    wanted = NOW.model_copy(update=update)
    made = plan(wanted, 4, runs(live=LIVE[:3]), StandbyUse.NEVER, ROOMY)
    assert [reason.partition(":")[0] for reason in made.reasons[:-1]] == [
        "max_num_batched_tokens",
        "num_speculative_tokens",
        "quantization",
    ]


def test_without_the_plugin_every_change_needs_another_server() -> None:
    bare = Running(NOW, 3, None)
    assert plan(NOW, 4, bare, StandbyUse.NEVER, ROOMY).way is Way.NOTHING
    made = plan(NOW.model_copy(update={"max_num_seqs": 4}), 4, bare, StandbyUse.NEVER, ROOMY)
    assert made.way is Way.RESTART
    assert "max_num_seqs: 4 needs a restart" in made.reasons[0]


def test_where_nothing_runs_it_is_started() -> None:
    assert plan(NOW, 1, None, StandbyUse.ALWAYS, ROOMY).way is Way.RESTART


CONFIGS = st.builds(
    EngineConfig,
    max_num_batched_tokens=st.sampled_from([1, 512, 1024, 1025]),
    prefill_chunk_size=st.sampled_from([0, 64]),
    max_num_seqs=st.sampled_from([1, 16, 17]),
    num_speculative_tokens=st.sampled_from([0, 4, 5, ((2, 4),), ((2, 5),)]),
    quantization=st.sampled_from([Quantization.NONE, Quantization.INT8]),
)


@given(CONFIGS, CONFIGS, st.integers(1, 3), st.sampled_from(StandbyUse), st.sampled_from([ROOMY, TIGHT]))
def test_a_cheaper_way_is_never_passed_over_and_never_promises_too_much(
    now: EngineConfig, wanted: EngineConfig, revision: int, use: StandbyUse, room: Room
) -> None:
    made = plan(wanted, revision, runs(now, 3), use, room)
    draft = wanted.num_speculative_tokens
    fits = (
        wanted.max_num_batched_tokens <= 1024
        and wanted.max_num_seqs <= 16
        and (draft if isinstance(draft, int) else draft[0][1]) <= 4
        and wanted.quantization is now.quantization
    )
    assert (made.way in (Way.NOTHING, Way.LIVE)) is fits
    assert (made.way is Way.NOTHING) is (fits and now == wanted and revision == 3)
    assert bool(made.reasons) is not fits
    if made.way is Way.STANDBY:
        assert use is StandbyUse.ALWAYS or (use is StandbyUse.AUTO and room is ROOMY)

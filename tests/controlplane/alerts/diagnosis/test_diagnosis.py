"""Stage, share and cause on cases made by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.alerts.diagnosis.arrival import Served
from controlplane.alerts.diagnosis.causes import (
    HIT_DROP,
    KV_FULL,
    LOAD_GROWTH,
    MIX_CHANGE,
    NODE_SHARE,
    Context,
    causes,
)
from controlplane.alerts.diagnosis.config_change import RevisionSeen
from controlplane.alerts.diagnosis.counted_ratio import Level
from controlplane.alerts.diagnosis.diagnosis import Measured, Shift, diagnose, placed, stage_shifts
from controlplane.alerts.diagnosis.draft_causes import DraftGroup, Drafts
from controlplane.contract.bodies.explanation import Bounded
from controlplane.contract.on_call.attribution import Attribution, HowMoved, PlaceOfShift
from controlplane.evidence.sketch import Sketch

ONSET = datetime(2030, 1, 1, 14, 3, 10, tzinfo=UTC)
USUAL = {"receive": 0.001, "tokenize": 0.002, "queue": 0.02, "prefill": 0.1, "decode": 0.4, "send": 0.001}
STEPS = {"step_schedule": 0.001, "step_forward": 0.018, "step_sample": 0.002, "step_commit": 0.001}


@pytest.fixture
def measured(sketch: Any) -> Any:
    def make(**factors: float) -> Measured:
        usual = {**USUAL, **STEPS}
        before = {part: sketch([value] * 20) for part, value in usual.items()}
        during = {part: sketch([value * factors.get(part, 1.0)] * 20) for part, value in usual.items()}
        return Measured(before, during)

    return make


def came(moment: datetime) -> list[RevisionSeen]:
    """Revision 2 took the whole pool from revision 1 at this moment."""
    times = [ONSET + timedelta(seconds=5 * place) for place in range(-60, 12)]
    new = [Served(time, 30 if time >= moment else 0, 30) for time in times]
    old = [Served(time, 30 - own, 30) for time, own, _ in new]
    return [RevisionSeen(1, 0.98, 0.0, old), RevisionSeen(2, 0.02, 1.0, new)]


def shift(metric: str) -> Shift:
    return Shift(metric, 0.99, 0.21, 1.9, ONSET)


@pytest.mark.parametrize(
    ("metric", "slow", "stage"),
    [
        ("ttft", {"queue": 50.0, "prefill": 1.2}, "queue"),
        ("ttft", {"prefill": 9.0, "queue": 2.0}, "prefill"),
        ("ttft", {"tokenize": 200.0}, "tokenize"),
        ("e2e", {"decode": 3.0, "prefill": 1.5}, "decode"),
        ("e2e", {"send": 500.0}, "send"),
        ("itl", {"step_forward": 3.0}, "decode"),
        ("itl", {"decode": 2.0}, "decode"),
    ],
)
def test_names_the_stage(measured: Any, metric: str, slow: dict[str, float], stage: str) -> None:
    found = diagnose(shift(metric), measured(**slow), Context())
    assert found.stage == stage
    assert sum(part.share_of_increase for part in found.stages) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("metric", ["itl", "tpot"])
def test_of_tokens_that_come_slower_the_stage_is_decode_whatever_its_parts_tell(measured: Any, metric: str) -> None:
    assert diagnose(shift(metric), Measured(), Context()).stage == "decode"
    assert diagnose(shift(metric), measured(decode=0.5), Context()).stage == "decode"


def test_the_sentence_for_a_tired_reader(measured: Any) -> None:
    revisions = came(ONSET - timedelta(seconds=10))
    knobs = {
        1: {"max_num_batched_tokens": 512, "max_num_seqs": 32},
        2: {"max_num_batched_tokens": 32, "max_num_seqs": 32},
    }
    around = Context(revisions=revisions, knobs=knobs)
    found = diagnose(shift("ttft"), measured(prefill=9.0, queue=9.0), around)
    assert found.summary == (
        "TTFT p99 rose from 210 ms to 1.90 s since 14:03:10 UTC; 83 % of it is prefill; revision 2 "
        "(max_num_batched_tokens 512 -> 32) reached all of the pool at 14:03:00."
    )
    assert found.causes[0]["changed"] == {"max_num_batched_tokens": [512, 32]}


def test_without_anything_to_go_by(measured: Any) -> None:
    found = diagnose(Shift("ttft", 0.95, None, None, ONSET), Measured(), Context())
    assert found.stage is None and [cause["cause"] for cause in found.causes] == ["unknown"]
    nothing_grew = diagnose(shift("ttft"), measured(), Context())
    assert nothing_grew.stage is None


@pytest.mark.parametrize(
    ("context", "cause"),
    [
        (Context(rate=Level(5.0, 12.0), waiting=Level(0.0, 40.0)), "load"),
        (Context(prompt_before={"<=128": 1.0}, prompt_during={"<=128": 0.4, "<=8k": 0.6}), "prompt_mix"),
        (Context(cache_before={"hit": 0.8, "miss": 0.2}, cache_during={"hit": 0.1, "miss": 0.9}), "cache_miss"),
        (Context(preemptions=Level(0.0, 1.5), kv_usage=Level(0.5, 0.99)), "preemption"),
        (Context(kv_usage=Level(0.5, 0.97)), "kv_pressure"),
        (Context(node_growth_s={"a": 0.001, "b": 0.4, "c": -0.01}), "one_node"),
        (Context(rate=Level(5.0, 5.5), prompt_before={"<=8k": 1.0}, prompt_during={"<=128": 1.0}), "unknown"),
    ],
)
def test_names_the_cause(context: Context, cause: str) -> None:
    found = causes(context, ONSET)
    assert found[0]["cause"] == cause and found[0]["message"]


def test_a_change_of_configuration_just_before_comes_first() -> None:
    revisions = came(ONSET - timedelta(seconds=5))
    found = causes(Context(revisions=revisions, rate=Level(5.0, 15.0)), ONSET)
    assert [cause["cause"] for cause in found] == ["config_change", "load"]
    assert found[0]["score"] > found[1]["score"]


@pytest.mark.parametrize(
    ("at", "below", "cause"),
    [
        (Context(rate=Level(4.0, 4.0 * LOAD_GROWTH)), Context(rate=Level(4.0, 3.96 * LOAD_GROWTH)), "load"),
        (
            Context(prompt_before={"<=128": 1.0}, prompt_during={"<=128": 0.84, "<=8k": 0.16}),
            Context(prompt_before={"<=128": 1.0}, prompt_during={"<=128": 0.86, "<=8k": 0.14}),
            "prompt_mix",
        ),
        (
            Context(cache_before={"hit": 0.5}, cache_during={"hit": 0.34, "miss": 0.66}),
            Context(cache_before={"hit": 0.5}, cache_during={"hit": 0.36, "miss": 0.64}),
            "cache_miss",
        ),
        (Context(kv_usage=Level(0.89, 0.9)), Context(kv_usage=Level(0.88, 0.89)), "kv_pressure"),
        (Context(preemptions=Level(0.0, 0.03)), Context(preemptions=Level(0.0, 0.02)), "preemption"),
        (Context(preemptions=Level(0.1, 0.21)), Context(preemptions=Level(0.1, 0.2)), "preemption"),
        (Context(node_growth_s={"a": 0.71, "b": 0.29}), Context(node_growth_s={"a": 0.69, "b": 0.31}), "one_node"),
    ],
)
def test_each_cause_has_its_threshold(at: Context, below: Context, cause: str) -> None:
    assert causes(at, ONSET)[0]["cause"] == cause
    assert causes(below, ONSET)[0]["cause"] == "unknown"


def test_the_thresholds_are_those_of_the_docs() -> None:
    assert (LOAD_GROWTH, MIX_CHANGE, HIT_DROP, KV_FULL, NODE_SHARE) == (1.25, 0.15, 0.15, 0.9, 0.7)


def test_load_is_what_arrives_not_what_is_served() -> None:
    """A pool that is full serves no more than before: what it is asked for stands in its queues."""
    full = Context(during_s=60.0, rate=Level(6.0, 6.0), backlog=Level(10.0, 370.0), waiting=Level(0.0, 90.0))
    (load,) = causes(full, ONSET)
    assert (load["cause"], load["rate_before"], load["rate_during"], load["served_during"]) == ("load", 6.0, 12.0, 6.0)
    assert "from 6 to 12 requests a second, of which 6 were served; 90 requests wait" in load["message"]


def test_a_slower_pool_with_the_same_arrivals_is_not_under_load() -> None:
    slow = Context(during_s=60.0, rate=Level(6.0, 2.0), backlog=Level(10.0, 250.0))
    assert causes(slow, ONSET)[0]["cause"] == "unknown"


def test_a_few_more_requests_by_chance_are_no_load() -> None:
    assert causes(Context(during_s=10.0, rate=Level(3.0, 4.0)), ONSET)[0]["cause"] == "unknown"
    assert causes(Context(during_s=300.0, rate=Level(3.0, 4.0)), ONSET)[0]["cause"] == "load"


def test_a_part_that_nobody_reported_before_takes_no_share_of_what_others_grew_by(sketch: Any) -> None:
    before = {"queue": sketch([0.1] * 20), "prefill": sketch([0.2] * 20), "send": Sketch()}
    during = {"queue": sketch([0.4] * 20), "prefill": sketch([0.3] * 20), "send": sketch([0.5] * 20)}
    during |= {"tokenize": sketch([0.9] * 20), "decode": Sketch()}
    found = {one.stage: one for one in stage_shifts(Measured(before, during), [*USUAL])}
    assert list(found) == ["tokenize", "queue", "prefill", "send"], "of what was measured during, in the parts' order"
    assert found["queue"].share_of_increase == pytest.approx(0.75, abs=0.03)
    assert found["prefill"].share_of_increase == pytest.approx(0.25, abs=0.03)
    for stage in ("tokenize", "send"):
        assert (found[stage].share_of_increase, found[stage].before_p99_s) == (0.0, None)
    assert found["tokenize"].before_mean_s is None and found["queue"].during_p99_s == pytest.approx(0.4, rel=0.03)


def test_parts_that_got_faster_share_nothing(sketch: Any) -> None:
    (found,) = stage_shifts(Measured({"queue": sketch([0.4] * 9)}, {"queue": sketch([0.1] * 9)}), ["queue"])
    assert found.share_of_increase == 0.0


def test_a_part_that_took_no_time_at_all_grows_from_nothing(sketch: Any) -> None:
    nothing = Sketch(zero_count=20, minimum=0.0, maximum=0.0)
    (grown,) = stage_shifts(Measured({"queue": nothing}, {"queue": sketch([0.4] * 20)}), ["queue"])
    assert (grown.share_of_increase, grown.before_mean_s) == (1.0, 0.0)
    (gone,) = stage_shifts(Measured({"queue": sketch([0.4] * 20)}, {"queue": nothing}), ["queue"])
    assert gone.share_of_increase == 0.0


def part(label: str, value: str, how: HowMoved) -> PlaceOfShift:
    nothing = Bounded(value=0.0, low=0.0, high=0.0)
    return PlaceOfShift(
        label=label, value=value, how=how, share=0.5, moved_s=nothing, before=0.1, during=0.5, named=True
    )


@pytest.mark.parametrize(
    ("cause", "place"),
    [
        ({"cause": "load"}, None),
        ({"cause": "tenant_mix", "value": "batch"}, ("tenant", "batch")),
        ({"cause": "prompt_mix"}, ("prompt_bucket", "<=2k")),
        ({"cause": "one_node"}, None),
    ],
)
def test_where_more_work_comes_the_place_is_who_sends_it_not_who_waits_for_it(
    cause: dict[str, Any], place: tuple[str, str] | None
) -> None:
    within = [part("node", "a", HowMoved.WITHIN), part("cache_class", "hit", HowMoved.WITHIN)]
    mixes = [part("tenant", "batch", HowMoved.MIX), part("prompt_bucket", "<=2k", HowMoved.MIX)]
    moved = Attribution(metric="ttft", q=0.95, before_s=1.0, during_s=2.0, places=[*within, *mixes])
    for named in (*within, None):
        found = placed(moved.model_copy(update={"place": named}), [cause])
        assert found is not None
        told = None if found.place is None else (found.place.label, found.place.value)
        assert found.place == named if cause["cause"] == "one_node" else told == place
    longer = moved.model_copy(update={"place": mixes[1]})
    found = placed(longer, [cause])
    assert found is not None and found.place == (mixes[0] if cause["cause"] == "tenant_mix" else mixes[1])


ALL_LOST, ALONE = Level(0.5, 0.1, 0.05), (Level(0.5, 0.1, 0.05), Level(0.5, 0.5, 0.05))


@pytest.mark.parametrize(
    ("groups", "slowest", "place"),
    [
        ([DraftGroup("node", "a", ALL_LOST, ALL_LOST), DraftGroup("node", "b", ALL_LOST, ALL_LOST)], "a", None),
        ([DraftGroup("node", "a", *ALONE), DraftGroup("node", "b", *ALONE[::-1])], "b", "a"),
        ([DraftGroup("node", "a", *ALONE), DraftGroup("node", "b", *ALONE[::-1])], None, "a"),
        ([DraftGroup("node", "c", *ALONE)], "b", None),
        ([DraftGroup("node", "a", ALL_LOST, None)], "a", "a"),
        ([], "a", "a"),
    ],
)
def test_of_drafts_the_place_is_whom_they_give_fewer_alone_not_who_is_slowest(
    groups: list[DraftGroup], slowest: str | None, place: str | None
) -> None:
    """Where it is not known whether others lose as well, what the latencies say stands."""
    nodes = {name: part("node", name, HowMoved.WITHIN) for name in "ab"}
    moved = Attribution(metric="tpot", q=0.95, before_s=1.0, during_s=2.0, places=list(nodes.values()))
    moved = moved.model_copy(update={"place": None if slowest is None else nodes[slowest]})
    found = placed(moved, [{"cause": "acceptance"}], Drafts(groups=groups))
    assert found is not None and found.place == (None if place is None else nodes[place])

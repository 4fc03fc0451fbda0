"""The order of causes: what each explains, times how plausible it is; a new configuration first unless contradicted."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.alerts.diagnosis.causes import Context, causes
from controlplane.alerts.diagnosis.counted_ratio import Level
from controlplane.alerts.diagnosis.place_causes import place_causes
from controlplane.alerts.diagnosis.plausibility import PRIOR
from controlplane.alerts.diagnosis.ranking import Meanwhile, ranked, share_explained
from controlplane.contract.bodies.explanation import Bounded
from controlplane.contract.on_call.attribution import Attribution, HowMoved, PlaceOfShift, StageOfShift

ONSET = datetime(2030, 1, 1, 12, tzinfo=UTC)


def bounded(value: float, wide: float = 0.05) -> Bounded:
    return Bounded(value=value, low=value - wide, high=value + wide)


def place(label: str, value: str, how: HowMoved, share: float, *, named: bool = True) -> PlaceOfShift:
    own = {"own_factor": 3.0, "others_factor": 1.0} if how is HowMoved.WITHIN else {}
    return PlaceOfShift(
        label=label,
        value=value,
        how=how,
        share=share,
        moved_s=bounded(share),
        before=0.2,
        during=0.4,
        named=named,
        **own,
    )


def moved(*places: PlaceOfShift, **stages: float) -> Attribution:
    told = [
        StageOfShift(stage=name, before_s=0.0, during_s=share, grown_s=bounded(share), share=share)
        for name, share in stages.items()
    ]
    return Attribution(metric="ttft", q=0.99, before_s=1.0, during_s=2.0, places=list(places), stages=told)


def order(found: list[dict[str, Any]], attribution: Attribution | None, **plausible: float) -> list[str]:
    return [cause["cause"] for cause in ranked(found, attribution, {**PRIOR, **plausible})]


def test_what_explains_next_to_nothing_is_no_cause() -> None:
    context = Context(
        prompt_before={"<=128": 0.9, "<=8k": 0.1}, prompt_during={"<=128": 0.7, "<=8k": 0.3}, rate=Level(10.0, 10.0)
    )
    told = moved(place("prompt_bucket", "<=8k", HowMoved.MIX, 0.1, named=False), tokenize=1.0)
    assert [cause["cause"] for cause in causes(context, ONSET, told)] == ["unknown"]
    told = moved(place("prompt_bucket", "<=8k", HowMoved.MIX, 0.9), prefill=1.0)
    assert [cause["cause"] for cause in causes(context, ONSET, told)] == ["prompt_mix"]


CONFIG = {"cause": "config_change", "score": 0.95, "message": "revision 2"}
LOAD = {"cause": "load", "score": 0.6, "message": "load rose"}
MIX = {"cause": "prompt_mix", "score": 0.8, "message": "longer"}
TWICE = Meanwhile(running=2.0)
ANSWERS = {"cause": "answer_mix", "score": 0.8, "message": "answers"}
DRAFTS = {"cause": "acceptance", "score": 0.78, "message": "drafts", "steps_growth": 1.8}
MEMORY = {"cause": "preemption", "score": 0.75, "message": "memory"}
NODE = {"cause": "one_node", "score": 0.7, "message": "node a", "node": "a"}


def test_drafts_that_give_fewer_hold_seats_and_memory_for_longer() -> None:
    """As longer answers do: a real vLLM's first tokens waited, and were told as memory that is short, and one node."""
    told = moved(place("node", "a", HowMoved.WITHIN, 0.99), queue=1.0)
    more = Meanwhile(steps=1.8)
    assert share_explained(DRAFTS, told, more) == 1.0 and share_explained(MEMORY, told, more) == 0.0
    assert share_explained(DRAFTS, told) == 0.0 and share_explained(MEMORY, told) == 1.0
    assert ranked([MEMORY, NODE, DRAFTS], told, PRIOR, more)[0]["cause"] == "acceptance"
    as_before = moved(prefill=1.0)
    assert share_explained(DRAFTS, as_before, more) == 0.0


def test_what_explains_more_goes_first() -> None:
    told = moved(place("prompt_bucket", "<=8k", HowMoved.MIX, 0.2), queue=0.9, prefill=0.1)
    assert order([MIX, LOAD], told) == ["load", "prompt_mix"]
    told = moved(place("prompt_bucket", "<=8k", HowMoved.MIX, 0.9), queue=0.1, prefill=0.9)
    assert order([LOAD, MIX], told) == ["prompt_mix", "load"]


def test_of_two_that_explain_it_the_more_plausible_goes_first_and_that_is_learned() -> None:
    told = moved(place("node", "a", HowMoved.WITHIN, 1.0), queue=1.0)
    assert order([NODE, LOAD], told) == ["load", "one_node"]
    assert order([NODE, LOAD], told, load=0.5) == ["one_node", "load"]


def test_more_running_at_once_explains_slower_steps() -> None:
    told = moved(queue=0.2, decode=0.8)
    assert share_explained(LOAD, told) == pytest.approx(0.2)
    assert share_explained(LOAD, told, TWICE) == pytest.approx(1.0)


def test_memory_that_longer_prompts_fill_is_short_because_of_them() -> None:
    short = {"cause": "preemption", "score": 0.75, "message": "memory"}
    longer = place("prompt_bucket", "<=8k", HowMoved.MIX, 0.6)
    assert share_explained(short, moved(longer, queue=0.9, prefill=0.1)) == pytest.approx(0.3)
    assert share_explained(short, moved(queue=0.9, prefill=0.1)) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("growth", "share"), [(1.24, 0.0), (1.25, 0.4 + 0.6 * 0.25), (1.5, 0.7), (2.0, 1.0), (9.0, 1.0)]
)
def test_longer_answers_explain_waiting_and_of_decode_what_so_many_tokens_take(growth: float, share: float) -> None:
    """Decode took 0.6 s before and 1.2 s now: twice as many tokens take as much at the old pace."""
    told = moved(queue=0.4, decode=0.6)
    decode = told.stages[1].model_copy(update={"before_s": 0.6, "during_s": 1.2})
    told = told.model_copy(update={"stages": [told.stages[0], decode]})
    assert share_explained(ANSWERS, told, Meanwhile(answers=growth)) == pytest.approx(share)
    short = {"cause": "preemption", "score": 0.75, "message": "memory"}
    assert share_explained(short, told, Meanwhile(answers=growth)) == pytest.approx(1.0 - share)


@pytest.mark.parametrize(("growth", "share"), [(1.2, 0.05), (1.3, 0.9)])
def test_all_wait_for_longer_prompts_as_they_do_for_more_requests(growth: float, share: float) -> None:
    told = moved(place("prompt_bucket", "<=8k", HowMoved.MIX, 0.05, named=False), queue=0.9, prefill=0.1)
    assert share_explained({**MIX, "tokens_growth": growth}, told) == pytest.approx(share)


@pytest.mark.parametrize(
    ("metric", "cause", "share"),
    [
        ("itl", {**MIX, "tokens_growth": 1.25}, None),
        ("tpot", {**MIX, "tokens_growth": 3.0}, None),
        ("itl", {**MIX, "tokens_growth": 1.24}, 0.05),
        ("prefill", {**MIX, "tokens_growth": 3.0}, 0.05),
    ],
)
def test_gaps_are_longer_for_all_where_longer_prompts_are_computed(
    metric: str, cause: dict[str, Any], share: float | None
) -> None:
    told = moved(place("prompt_bucket", "<=8k", HowMoved.MIX, 0.05, named=False)).model_copy(update={"metric": metric})
    assert share_explained(cause, told) == share


def test_at_which_node_more_work_is_waited_for_is_chance() -> None:
    slow, longer = place("node", "a", HowMoved.WITHIN, 1.0), place("prompt_bucket", "<=8k", HowMoved.MIX, 0.5)
    assert share_explained(NODE, moved(slow, longer, queue=0.9, prefill=0.1)) == 0.0
    assert share_explained(NODE, moved(slow, longer, queue=0.0, prefill=1.0)) == pytest.approx(0.5)
    assert share_explained(NODE, moved(slow, queue=0.9, prefill=0.1)) == pytest.approx(1.0)


def test_a_tenant_that_loads_explains_what_the_load_does_and_no_more_is_known() -> None:
    """Of gaps between tokens no stages are told, so neither is what the load explains of them."""
    load = {**LOAD, "rate_before": 10.0, "rate_during": 20.0}
    tenant = {"cause": "tenant_mix", "score": 0.82, "message": "batch", "before_share": 0.1, "during_share": 0.55}
    told = moved(place("tenant", "batch", HowMoved.MIX, 0.02, named=False))
    first = ranked([load, tenant], told, PRIOR)[0]
    assert first["cause"] == "tenant_mix" and first["score"] == 0.6 and "share_explained" not in first


def test_load_explains_of_slower_steps_what_longer_prompts_and_who_sends_them_do_not() -> None:
    tenant, prompts = place("tenant", "batch", HowMoved.MIX, 0.6), place("prompt_bucket", "<=8k", HowMoved.MIX, 0.5)
    told = moved(tenant, prompts, queue=0.1, prefill=0.9)
    assert share_explained(LOAD, told, TWICE) == pytest.approx(0.4)
    assert order([LOAD, {"cause": "tenant_mix", "score": 0.82, "message": "batch"}], told) == ["tenant_mix", "load"]
    by_chance = moved(place("tenant", "batch", HowMoved.MIX, 0.6, named=False), queue=0.1, prefill=0.9)
    assert share_explained(LOAD, by_chance, TWICE) == pytest.approx(1.0)


@pytest.mark.parametrize(("during_share", "first"), [(0.55, "tenant_mix"), (0.4, "load")])
def test_a_tenant_that_sends_most_of_what_came_more_goes_before_the_load(during_share: float, first: str) -> None:
    """From 10 to 20 requests a second, of which the tenant's were 1."""
    told = moved(place("tenant", "batch", HowMoved.MIX, 0.1), queue=0.9, prefill=0.1)
    load = {**LOAD, "rate_before": 10.0, "rate_during": 20.0}
    tenant = {
        "cause": "tenant_mix",
        "score": 0.82,
        "message": "batch",
        "before_share": 0.1,
        "during_share": during_share,
    }
    assert order([load, tenant], told)[0] == first


def test_a_configuration_goes_first_although_it_explains_a_part_only() -> None:
    told = moved(place("revision", "2", HowMoved.MIX, 0.5), queue=1.0)
    assert order([LOAD, CONFIG], told) == ["config_change", "load"]


def test_a_configuration_whose_requests_are_no_slower_is_contradicted() -> None:
    told = moved(place("revision", "2", HowMoved.MIX, 0.02, named=False), queue=1.0)
    assert order([CONFIG, LOAD], told) == ["load", "config_change"]


def test_a_configuration_is_not_blamed_for_a_change_of_the_traffic() -> None:
    told = moved(place("prompt_bucket", "<=8k", HowMoved.MIX, 0.95), place("revision", "2", HowMoved.MIX, 1.0))
    assert order([CONFIG, MIX], told) == ["prompt_mix", "config_change"]


def test_without_an_attribution_the_evidence_alone_orders_them() -> None:
    assert order([LOAD, NODE, CONFIG], None) == ["config_change", "one_node", "load"]
    assert all("share_explained" not in cause for cause in ranked([LOAD], None, PRIOR))


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (place("node", "a", HowMoved.WITHIN, 0.9), "one_node"),
        (place("prompt_bucket", "<=8k", HowMoved.WITHIN, 0.9), "one_group"),
        (place("tenant", "batch", HowMoved.WITHIN, 0.9), "one_group"),
        (place("tenant", "batch", HowMoved.MIX, 0.9), "tenant_mix"),
        (place("prompt_bucket", "<=8k", HowMoved.MIX, 0.9), "prompt_mix"),
        (place("cache_class", "miss", HowMoved.MIX, 0.9), "cache_miss"),
    ],
)
def test_a_place_that_is_named_is_a_cause(found: PlaceOfShift, cause: str) -> None:
    (told,) = place_causes(moved(found))
    assert told["cause"] == cause and share_explained(told, moved(found)) == pytest.approx(0.9)


@pytest.mark.parametrize(
    "found",
    [
        place("node", "a", HowMoved.WITHIN, 0.9, named=False),
        place("cache_class", "hit", HowMoved.MIX, 0.9),
        place("node", "a", HowMoved.MIX, 0.9),
        place("host_state", "busy", HowMoved.WITHIN, 0.9),
    ],
)
def test_other_places_are_none(found: PlaceOfShift) -> None:
    assert place_causes(moved(found)) == []

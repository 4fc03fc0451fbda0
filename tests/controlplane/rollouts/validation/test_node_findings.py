"""A configuration against what nodes say of themselves."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig, NodeRole, NodeView
from controlplane.contract.changes.findings import Finding
from controlplane.contract.knobs import KNOBS, ChangeClass, EngineConfig
from controlplane.contract.reports.declared_knobs import DeclaredKnob
from controlplane.rollouts.validation.node_findings import MEMORY, findings
from tests.controlplane.contract.planning.test_memory_estimate import MIB, TOLD

RUNS = EngineConfig().knobs()
HOLDS = TOLD.model_copy(update={"kv_cache_size_tokens": 40 * 2048, "logits_bytes_per_token": MIB // 8})
NOT_KNOWN = "it does not tell its memory, so whether this fits there is not known"


def node(name: str = "gpu-1", *, connected: bool = True, backend: str = "vllm", **effective: Any) -> NodeView:
    view = NodeView(node=name, pool="chat", role=NodeRole.SERVING, backend=backend, connected=connected, healthy=True)
    said = EffectiveConfig(**{"revision": 1, "knobs": RUNS, **effective})
    return view.model_copy(update={"effective": said})


def refusing(found: list[Finding]) -> list[str]:
    return [one.sentence for one in found if one.refuses]


def test_what_a_node_runs_already_has_nothing_against_it() -> None:
    assert findings(RUNS, [node(limits={"max_num_seqs": 1}, formats=["fp8"])]) == []


def test_a_limit_is_named_with_its_node_and_mend() -> None:
    found = findings({**RUNS, "max_num_seqs": 64}, [node(limits={"max_num_seqs": 48})])
    assert refusing(found) == [
        "gpu-1: knobs.max_num_seqs: 64 is above 48, its limit; at most 48, or start its engine with more"
    ]
    assert (found[0].node, found[0].field) == ("gpu-1", "knobs.max_num_seqs")


def test_the_longest_draft_of_a_schedule_counts() -> None:
    schedule = {**RUNS, "num_speculative_tokens": [[4, 6], [32, 2]]}
    assert refusing(findings(schedule, [node(limits={"num_speculative_tokens": 6})])) == []
    assert len(refusing(findings(schedule, [node(limits={"num_speculative_tokens": 5})]))) == 1


def test_a_format_without_weights_is_refused_and_an_unknown_one_is_not() -> None:
    wanted = {**RUNS, "quantization": "fp8"}
    (sentence,) = refusing(findings(wanted, [node(formats=["none", "int8"])]))
    assert "it has no weights in fp8; one of none, int8" in sentence
    assert refusing(findings(wanted, [node(formats=[])])) == []


def test_above_the_live_limit_it_restarts_which_is_told_with_its_price() -> None:
    cost = ChangeCost(count=2, last_s=90.0, mean_s=95.0, unavailable_s=80.0)
    one = node(live_limits={"max_num_seqs": 32}, limits={"max_num_seqs": 128}, costs={ChangeClass.RESTART: cost})
    found = findings({**RUNS, "max_num_seqs": 64}, [one])
    assert refusing(found) == []
    assert [finding.sentence for finding in found] == [
        "gpu-1: knobs.max_num_seqs: 64 is above 32, up to which it changes while it serves, so it restarts; "
        "at most 32, to keep it serving",
        "gpu-1: effective.costs: it needs a restart; such a change has taken 95 s there, and requests waited for 80 s",
        f"gpu-1: {MEMORY}: {NOT_KNOWN}",
    ]


def test_below_the_floor_of_its_scheduler_it_restarts_too() -> None:
    one = node(live_floors={"max_num_batched_tokens": 9}, live_limits={"max_num_batched_tokens": 1024})
    told, *_ = findings({**RUNS, "max_num_batched_tokens": 8}, [one])
    assert not told.refuses and told.sentence == (
        "gpu-1: knobs.max_num_batched_tokens: 8 is below 9, down to which it changes while it serves, so it restarts; "
        "at least 9, to keep it serving"
    )


def test_a_price_that_nobody_measured_is_not_made_up() -> None:
    found, _ = findings({**RUNS, "quantization": "int8"}, [node(backend="embedded", formats=["none", "int8"])])
    assert found.problem == "it needs a swap; nobody has measured what that takes there"


def test_a_knob_that_cannot_be_read_is_told() -> None:
    said = {name: value for name, value in RUNS.items() if name != "prefill_chunk_size"}
    found, _ = findings({**RUNS, "prefill_chunk_size": 128}, [node(knobs=said)])
    assert (found.field, found.refuses) == ("knobs.prefill_chunk_size", False)


def test_a_node_that_is_away_or_has_said_nothing_refuses_nothing() -> None:
    away = node("away", connected=False, limits={"max_num_seqs": 1})
    silent = node("silent").model_copy(update={"effective": None})
    found = findings({**RUNS, "max_num_seqs": 64}, [away, silent])
    assert refusing(found) == []
    assert {one.node for one in found} == {"away", "silent"}


@pytest.mark.parametrize(("name", "value"), [("max_num_seqs", 100_000), ("no_such_knob", 1), ("quantization", "int2")])
def test_a_revision_older_than_todays_bounds_is_refused_on_every_node(name: str, value: Any) -> None:
    (finding, *_) = findings({**RUNS, name: value}, [node(formats=["int2"])])
    assert (finding.node, finding.field, finding.refuses) == ("", f"knobs.{name}", True)


def test_what_cannot_fit_is_refused_with_knob_bytes_and_mend() -> None:
    (sentence,) = refusing(findings({**RUNS, "max_num_batched_tokens": 2048}, [node(memory=HOLDS)]))
    assert sentence == (
        "gpu-1: knobs.max_num_batched_tokens: it does not fit the memory: it needs at least 1.18 GiB (weights 400 MiB, "
        "KV cache 300 MiB, activations 512 MiB) of 1000 MiB; "
        "at most 1200, or give its engine more memory or a smaller KV cache"
    )
    away = node(memory=HOLDS, connected=False)
    assert refusing(findings({**RUNS, "max_num_batched_tokens": 2048}, [away])) == []


def test_what_fits_is_told_last_by_term() -> None:
    found = findings({**RUNS, "quantization": "int8"}, [node("a", memory=HOLDS), node("b", memory=HOLDS)])
    assert [(one.node, one.field) for one in found[-2:]] == [("a", MEMORY), ("b", MEMORY)]
    assert found[-1].problem.startswith("it fits the memory: it needs at least 810 MiB (weights 110 MiB, ")
    assert refusing(found) == []


def test_a_node_that_does_not_tell_enough_refuses_nothing() -> None:
    half = HOLDS.model_copy(update={"limit_bytes": None})
    found = findings({**RUNS, "max_num_batched_tokens": 65536}, [node("a"), node("b", memory=half)])
    assert refusing(found) == []
    silent, told = [one.problem for one in found if one.field == MEMORY]
    assert silent == NOT_KNOWN
    assert told.startswith("whether it fits the memory is not known: it needs at least ")
    assert told.endswith("; not told: how much there is")


def test_more_seats_than_the_cache_holds_at_full_length_are_told() -> None:
    found = findings({**RUNS, "max_num_seqs": 64}, [node(memory=HOLDS)])
    (seats,) = [one for one in found if one.field == "knobs.max_num_seqs"]
    assert not seats.refuses
    assert seats.problem == "its KV cache holds 40 requests of the greatest length (2048 tokens) at once, not 64"
    for runs, wanted in ((32, 40), (64, 48)):
        found = findings({**RUNS, "max_num_seqs": wanted}, [node(memory=HOLDS, knobs={**RUNS, "max_num_seqs": runs})])
        assert [one.field for one in found] == [MEMORY]


LIMIT = st.integers(min_value=0, max_value=4096)


@given(wanted=st.integers(min_value=1, max_value=4096), limit=LIMIT, live=LIMIT, connected=st.booleans())
def test_refused_is_exactly_what_the_node_would_refuse(wanted: int, limit: int, live: int, connected: bool) -> None:
    one = node(connected=connected, limits={"max_num_seqs": limit}, live_limits={"max_num_seqs": live})
    found = findings({**RUNS, "max_num_seqs": wanted}, [one])
    beyond = wanted > limit and wanted != RUNS["max_num_seqs"]
    assert bool(refusing(found)) is (beyond and connected)
    assert [one.refuses for one in found] == sorted((one.refuses for one in found), reverse=True)
    assert all(one.field.removeprefix("knobs.") in {*KNOBS, "effective.costs", "connected", MEMORY} for one in found)


BLOCKS = DeclaredKnob(change_class=ChangeClass.RESTART, start=16, values=(16, 32))


@pytest.mark.parametrize(
    ("effective", "wanted", "refused"),
    [
        ({}, 32, ["knobs.block_size: none of the nodes declares such a knob; declare it in their node files"]),
        ({"declared": {"block_size": BLOCKS}, "knobs": {**RUNS, "block_size": 16}}, 32, []),
        (
            {"declared": {"block_size": BLOCKS}, "knobs": {**RUNS, "block_size": 16}},
            24,
            ["24 is not one of 16, 32; choose another, or declare a wider range"],
        ),
    ],
)
def test_a_declared_knob_is_for_the_nodes_that_declare_it(effective: Any, wanted: int, refused: list[str]) -> None:
    found = refusing(findings({**RUNS, "block_size": wanted}, [node(**effective)]))
    assert len(found) == len(refused)
    assert all(said in sentence for said, sentence in zip(refused, found, strict=True))


def test_a_restart_for_a_declared_knob_is_told_with_its_price_and_that_its_memory_is_not_known() -> None:
    cost = ChangeCost(count=2, last_s=90.0, mean_s=95.0, unavailable_s=80.0)
    runs = {**RUNS, "block_size": 32}
    one = node(declared={"block_size": BLOCKS}, knobs=runs, costs={ChangeClass.RESTART: cost}, memory=HOLDS)
    told = [finding.sentence for finding in findings(RUNS, [one])]  # It goes back to its start.
    assert any("restart" in sentence for sentence in told)
    assert any("what block_size changes in its memory is not known" in sentence for sentence in told)
    assert findings(runs, [one]) == []


def test_a_node_that_does_not_declare_what_others_do_is_named() -> None:
    own = node("own", declared={"block_size": BLOCKS}, knobs={**RUNS, "block_size": 32})
    (sentence,) = refusing(findings({**RUNS, "block_size": 32}, [own, node("plain")]))
    assert sentence == (
        "plain: knobs.block_size: it declares no knob block_size; declare it in its node file, [knobs.block_size], "
        "or leave it out of the revision"
    )

"""The two plans of the story: what each breaks is a live knob that the node can take up."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from agents.demo.plan import Plan
from controlplane.contract.knobs import KNOBS, ChangeClass, parse_config

VLLM = Plan.on_vllm(Path("/opt/vllm/bin/vllm"))


@pytest.mark.parametrize("plan", [Plan(), VLLM], ids=["embedded", "vllm"])
def test_both_configurations_are_ones_a_node_can_run(plan: Plan) -> None:
    good = parse_config(plan.good)
    bad = parse_config(plan.bad, base=good)
    assert good != bad
    assert plan.study().constraints[0].limit_s == plan.itl_limit_s
    assert plan.study_s < plan.study_limit_s < plan.whole_limit_s


def test_the_bad_change_is_live_and_within_what_vllm_was_started_with() -> None:
    assert VLLM.vllm is not None
    good, bad = parse_config(VLLM.good), parse_config(VLLM.bad, base=parse_config(VLLM.good))
    for name in VLLM.bad:
        assert KNOBS[name].vllm is ChangeClass.LIVE
    for config in (good, bad):
        assert config.max_num_batched_tokens <= VLLM.vllm.capacity_tokens
        assert config.max_num_seqs <= VLLM.vllm.capacity_seqs
        assert config.draft_length(1) <= VLLM.vllm.capacity_drafts
    # What runs still gets its token in each step, and a decode is admitted (1 + the started draft length).
    least = 1 + VLLM.vllm.capacity_drafts
    assert bad.max_num_batched_tokens >= max(bad.max_num_seqs, least)
    assert not bad.prefill_chunk_size or bad.prefill_chunk_size >= least
    longest = VLLM.max_input_tokens + VLLM.max_output_tokens
    assert longest < VLLM.vllm.max_model_len
    # With every request at its longest, nothing has to be preempted: 6 layers, 2 heads of 64, keys and values, float32.
    assert VLLM.vllm.capacity_seqs * longest * 6 * 2 * 64 * 2 * 4 <= 2 * VLLM.kv_cache_mib * 2**20


def test_beside_others_there_is_less_traffic_and_as_many_requests_for_the_baseline() -> None:
    busy = VLLM.beside_others(1.0)
    assert (VLLM.rate, busy.rate) == (6.0, 4.0) and VLLM.beside_others(1.8) == VLLM
    assert (Plan().rate, Plan().beside_others(0.5).rate) == (9.0, 6.0)
    for plan in (Plan(), Plan().beside_others(1.0), VLLM, busy):
        assert plan.rate * (plan.baseline_s - 40.0) >= 200.0
    assert replace(VLLM, rate=1.0).beside_others(1.0).rate == 1.0


def test_patience_lengthens_limits_and_relaxes_no_judgement() -> None:
    patient = asdict(VLLM.patient(2.0))
    changed = {name for name, value in asdict(VLLM).items() if value != patient[name]}
    assert changed == {
        "start_limit_s",
        "alert_limit_s",
        "study_limit_s",
        "study_s",
        "rollout_limit_s",
        "resolve_limit_s",
        "whole_limit_s",
    }
    assert patient["study_limit_s"] == 2 * VLLM.study_limit_s

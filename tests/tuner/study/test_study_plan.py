"""A study's traffic as it is kept: small, and a replay of it the same."""

import pytest

from controlplane.contract.bodies.workload import LONGEST_TRAFFIC
from controlplane.contract.planning.packed_traffic import packed, unpacked
from tuner.study import study_plan
from tuner.study.study_plan import plan_of, slices_of
from tuner.workload.capture import slice_for_node
from tuner.workload.generate import CONV, generate
from tuner.workload.prompt import PromptMaker

LONG = generate(CONV, seed=3, rate_per_s=12, requests=400)
CORPUS = [place % 501 for place in range(4000)]


def test_what_is_kept_replays_as_what_was_captured() -> None:
    seen = slice_for_node(LONG, span_s=8, requests=40)
    fresh = slice_for_node(LONG, span_s=8, requests=40, apart_from=seen)
    plan = plan_of({}, seen, fresh, {}, serving=2, remembered=[])
    assert plan is not None
    for kept, captured in zip(slices_of(plan), (seen, fresh), strict=True):
        assert kept.lead_in == captured.lead_in == 10
        for again, was in ((kept.workload, captured.workload), (kept.prime, captured.prime)):
            assert again.model_dump(exclude={"requests"}) == was.model_dump(exclude={"requests"})
            for one, other in zip(again.requests, was.requests, strict=True):
                lengths = (other.timestamp, other.input_length, other.output_length, len(other.hash_ids))
                assert (one.timestamp, one.input_length, one.output_length, len(one.hash_ids)) == lengths
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for one, other in zip(slices_of(plan)[0].workload.requests, seen.workload.requests, strict=True):
        for new, old in zip(one.hash_ids, other.hash_ids, strict=True):
            assert before.setdefault(old, new) == new and after.setdefault(new, old) == old
    PromptMaker(CORPUS, block_size=16).prompts(slices_of(plan)[0].workload)


def test_long_prompts_in_their_hundreds_are_small_and_too_many_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(packed([LONG])) < LONGEST_TRAFFIC / 10
    seen = slice_for_node(LONG, span_s=8, requests=40)
    fresh = slice_for_node(LONG, span_s=8, requests=40, apart_from=seen)
    monkeypatch.setattr(study_plan, "LONGEST_TRAFFIC", 100)
    assert plan_of({}, seen, fresh, {}, serving=1, remembered=[]) is None


def test_what_was_not_packed_is_refused() -> None:
    for text in ("no base64!", "AAAA"):
        with pytest.raises(ValueError, match=r"base64|traffic: "):
            unpacked(text)

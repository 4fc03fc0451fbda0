"""The quality gate."""

import pytest
from sse_engine import SseEngine

from tuner.search import quality_gate


def test_prompts_grow_within_a_passage() -> None:
    found = quality_gate.held_out_prompts(list(range(4000)), passages=10, positions=4, step=24)
    assert len(found) == 40 and {len(prompt) for prompt in found} == {24, 48, 72, 96}
    assert found[3][:24] == found[0]
    assert quality_gate.held_out_prompts([1, 2], passages=3) == []


def test_agreement_over_http(engine: SseEngine) -> None:
    prompts = quality_gate.held_out_prompts(list(range(4000)))
    reference = quality_gate.next_tokens(engine.url, "m", prompts)
    assert quality_gate.agreement(reference, quality_gate.next_tokens(engine.url, "m", prompts)) == 1.0
    engine.first_token = lambda prompt: f" t{sum(prompt) % 97}" if len(prompt) > 24 else " other"
    share = quality_gate.agreement(reference, quality_gate.next_tokens(engine.url, "m", prompts))
    assert share == pytest.approx(0.75)
    assert quality_gate.violation(share) > 0 > quality_gate.violation(0.95)
    told = quality_gate.report(share, len(prompts))
    assert told["top1_agreement_low"] < share < told["top1_agreement_high"]

"""Sampling follows the target's distribution, with speculation and without, and a seed decides the text."""

from pathlib import Path

import pytest
import torch

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.drafting.drafting import accept
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams, uniform
from agents.engine.sampling.row import Row
from agents.engine.sampling.sampler import sample
from agents.engine.scheduling.request import Request
from controlplane.contract.knobs import parse_config

DRAWS = 20_000


def _shares(logits: torch.Tensor, **params: float) -> torch.Tensor:
    rows = [Row(SamplingParams(1, seed=seed, **params), 0) for seed in range(DRAWS)]  # type: ignore[arg-type]
    tokens = torch.tensor(sample(logits.expand(DRAWS, -1), rows))
    return torch.bincount(tokens, minlength=logits.shape[-1]) / DRAWS


def _distance(shares: torch.Tensor, wanted: torch.Tensor) -> float:
    """Total variation."""
    return float((shares - wanted).abs().sum() / 2)


@pytest.mark.slow
def test_temperature_scales_the_distribution() -> None:
    logits = torch.randn(1, 12, generator=torch.Generator().manual_seed(0))
    for temperature in (0.5, 1.0, 2.0):
        assert _distance(_shares(logits, temperature=temperature), torch.softmax(logits[0] / temperature, 0)) < 0.012


@pytest.mark.slow
def test_top_k_and_top_p_cut_the_tail_and_keep_the_proportions() -> None:
    weights = torch.tensor([0.05, 0.4, 0.3, 0.2, 0.05])
    logits = weights.log().unsqueeze(0)
    assert _distance(_shares(logits, temperature=1.0, top_k=2), torch.tensor([0, 4 / 7, 3 / 7, 0, 0])) < 0.012
    assert _distance(_shares(logits, temperature=1.0, top_p=0.75), torch.tensor([0, 4 / 9, 3 / 9, 2 / 9, 0])) < 0.012
    assert _distance(_shares(logits, temperature=1.0, top_p=1e-9), torch.tensor([0, 1.0, 0, 0, 0])) == 0


def test_greedy_takes_the_first_of_equals_and_rows_do_not_mix() -> None:
    logits = torch.tensor([[0.0, 3.0, 3.0], [9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    greedy, sampled = SamplingParams(1), SamplingParams(1, temperature=0.1, seed=4)
    assert sample(logits, [Row(greedy, 0), Row(sampled, 0), Row(greedy, 0)]) == [1, 0, 2]


@pytest.mark.slow
def test_verifying_drafts_keeps_the_distribution() -> None:
    """The first token after verification follows the target, for a likely draft and for an unlikely one."""
    logits = torch.tensor([[1.0, 0.0, 2.0, -1.0], [0.0, 1.0, 0.0, 1.0]])
    target = torch.softmax(logits.double(), dim=-1)
    for draft in (2, 3):
        firsts, seconds = torch.zeros(4), torch.zeros(4)
        for seed in range(DRAWS // 4):
            params = SamplingParams(9, temperature=1.0, seed=seed)
            kept = accept([draft], sample(logits, [Row(params, 0), Row(params, 1)]))
            firsts[kept[0]] += 1
            if len(kept) > 1:
                seconds[kept[1]] += 1
        assert _distance(firsts / firsts.sum(), target[0]) < 0.02
        assert _distance(seconds / seconds.sum(), target[1]) < 0.05
        assert float(seconds.sum() / firsts.sum()) == pytest.approx(float(target[0, draft]), abs=0.02)


def test_random_numbers_are_uniform_and_repeat() -> None:
    draws = torch.tensor([uniform(7, place) for place in range(5000)])
    assert abs(float(draws.mean()) - 0.5) < 0.02 and float(draws.min()) >= 0 and float(draws.max()) < 1
    assert uniform(7, 3) == uniform(7, 3) != uniform(8, 3)


@torch.inference_mode()
def _texts(folder: Path, drafts: int, mates: int) -> tuple[list[list[int]], int]:
    engine = StepEngine(EngineOptions(folder, config=parse_config({"num_speculative_tokens": drafts})), EventLog())
    prompts = [[5, 6, 7, 8] * 6, [9, 10, 9, 10, 9, 10], [3] * 9]
    requests = [
        Request(str(n), prompt, SamplingParams(20, temperature=0.3, top_p=0.9, top_k=50 * n, seed=n))
        for n, prompt in enumerate(prompts)
    ]
    for request in requests[: mates + 1]:
        engine.scheduler.add(request)
    while engine.scheduler.has_work:
        engine.step()
    accepted = sum(event["accepted_tokens"] for event in engine.log.after(0) if event["kind"] == "step")
    return [request.tokens[request.prompt_length :] for request in requests[: mates + 1]], accepted


@pytest.mark.slow
def test_a_seeded_text_is_the_same_with_speculation_and_batch_mates(model_dir: Path) -> None:
    plain, _ = _texts(model_dir, 0, 2)
    speculative, accepted = _texts(model_dir, 4, 2)
    assert speculative == plain and accepted > 0
    assert _texts(model_dir, 0, 0)[0] == plain[:1]

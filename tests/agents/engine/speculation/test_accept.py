"""Which drafts are kept, and that what comes out follows the target's distribution whoever drafted."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from agents.engine.drafting.drafting import accept
from agents.engine.request.params import SamplingParams
from tests.agents.engine.drafting.drafter_conformance import run_all, start

pytestmark = pytest.mark.slow

SAMPLES, TOKENS = 4000, 3
PROMPT = [5, 6, 7, 8, 5, 6, 9, 7, 8, 6, 5, 7, 6, 8, 9, 5, 6, 7]
BIAS = tuple((token, 100.0) for token in (5, 6, 7, 8, 9, 10))
"""Nothing else is ever said, so that prompt lookup is right now and then."""
LEAST = 5 / SAMPLES  # Texts rarer than this are counted together.


@pytest.mark.parametrize(
    ("drafts", "sampled", "kept"),
    [([], [5], [5]), ([1, 2], [1, 2, 3], [1, 2, 3]), ([1, 2], [1, 9, 3], [1, 9]), ([1, 2], [8, 2, 3], [8])],
)
def test_keeps_drafts_until_the_first_that_differs(drafts: list[int], sampled: list[int], kept: list[int]) -> None:
    assert accept(drafts, sampled) == kept


def _cut(probabilities: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """top_k, then top_p, by their definitions."""
    ordered, ids = probabilities.sort(descending=True)
    if params.top_k:
        ordered[params.top_k :] = 0.0
    ordered /= ordered.sum()
    ordered[(ordered.cumsum(0) - ordered) >= params.top_p] = 0.0
    return torch.zeros_like(probabilities).scatter(0, ids, ordered / ordered.sum())


@torch.no_grad()
def _exact(folder: Path, params: SamplingParams) -> dict[tuple[int, ...], float]:
    """The probability of each text of `TOKENS` tokens that is not rare, by transformers' logits."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    texts: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(TOKENS):
        logits = model(torch.tensor([[*PROMPT, *text] for text in texts])).logits[:, -1].double()
        logits[:, [token for token, _ in BIAS]] += 100.0
        longer: dict[tuple[int, ...], float] = {}
        for (text, probability), row in zip(texts.items(), logits, strict=True):
            following = _cut(torch.softmax(row / params.temperature, dim=-1), params)
            for token in torch.nonzero(following * probability >= LEAST).flatten().tolist():
                longer[*text, token] = probability * float(following[token])
        texts = longer
    return texts


def _chi_square(counts: Counter[tuple[int, ...]], exact: dict[tuple[int, ...], float]) -> tuple[float, float]:
    """The statistic and the value it passes with probability 0.001 (Wilson and Hilferty 1931)."""
    rest = 1.0 - sum(exact.values())
    cells = [(counts[text], SAMPLES * probability) for text, probability in exact.items()]
    if rest * SAMPLES >= 5:
        cells.append((SAMPLES - sum(seen for seen, _ in cells), SAMPLES * rest))
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in cells)
    freedom = len(cells) - 1
    return statistic, freedom * (1 - 2 / (9 * freedom) + 3.09 * (2 / (9 * freedom)) ** 0.5) ** 3


def _sample(
    folder: Path, options: dict[str, Any], params: dict[str, Any], first_seed: int
) -> tuple[Sequence[Sequence[int]], Any]:
    options = {**options, "speculation_gate": False, "kv_cache_memory_bytes": 64 * 2**20}
    engine, watched = start(folder, options, num_speculative_tokens=2, max_num_seqs=256, max_num_batched_tokens=8192)
    asked = [SamplingParams(TOKENS, seed=first_seed + n, logit_bias=BIAS, **params) for n in range(SAMPLES)]
    texts = [run_all(engine, [PROMPT] * 250, asked[first : first + 250]) for first in range(0, SAMPLES, 250)]
    return [text for some in texts for text in some], watched


@pytest.mark.parametrize("method", ["ngram", "early_exit", "draft_model"])
@pytest.mark.parametrize(
    "params",
    [{"temperature": 2.0}, {"temperature": 4.0, "top_k": 4}, {"temperature": 3.0, "top_p": 0.8}],
    ids=["temperature", "top_k", "top_p"],
)
def test_texts_follow_the_targets_distribution(
    model_dir: Path, draft_dir: Path, method: str, params: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"speculative_method": method}
    if method == "draft_model":
        options["draft_model"] = draft_dir
    texts, watched = _sample(model_dir, options, params, first_seed=0)
    exact = _exact(model_dir, SamplingParams(TOKENS, **params))
    statistic, limit = _chi_square(Counter(map(tuple, texts)), exact)
    assert len(exact) >= 10 and statistic < limit
    assert 0 < watched.accepted < watched.proposed


def test_the_test_would_see_another_distribution(model_dir: Path) -> None:
    texts, _ = _sample(model_dir, {}, {"temperature": 2.5, "top_k": 3}, first_seed=0)
    statistic, limit = _chi_square(
        Counter(map(tuple, texts)), _exact(model_dir, SamplingParams(TOKENS, temperature=4.0, top_k=3))
    )
    assert statistic > limit

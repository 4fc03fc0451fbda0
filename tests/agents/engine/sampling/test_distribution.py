"""Each parameter's meaning: equal to transformers' processors, drawn as defined (chi-square), bit-stable in batches."""

import pytest
import torch
import transformers

from agents.engine.request.params import SamplingParams
from agents.engine.request.token_history import TokenHistory
from agents.engine.sampling.distribution import probabilities
from agents.engine.sampling.row import Row
from agents.engine.sampling.sampler import sample
from tests.soak import soak

pytestmark = pytest.mark.slow

PROMPT, OUTPUT = [3, 5, 5, 9], [5, 7, 7, 7]
DRAWS = 4000
CASES = {
    "temperature": {"temperature": 0.7},
    "top_k": {"temperature": 1.3, "top_k": 9},
    "top_p": {"temperature": 1.0, "top_p": 0.8},
    "min_p": {"temperature": 1.5, "min_p": 0.1},
    "top_k and top_p": {"temperature": 1.2, "top_k": 20, "top_p": 0.7},
    "min_p and top_p": {"temperature": 1.6, "min_p": 0.05, "top_p": 0.9},
    "all three": {"temperature": 1.6, "min_p": 0.02, "top_p": 0.9, "top_k": 15},
    "repetition": {"temperature": 1.0, "repetition_penalty": 1.7},
    "presence": {"temperature": 1.0, "presence_penalty": 1.5},
    "frequency": {"temperature": 1.0, "frequency_penalty": 0.8},
    "all penalties": {
        "temperature": 0.9,
        "repetition_penalty": 0.8,
        "presence_penalty": -0.5,
        "frequency_penalty": 0.4,
        "top_p": 0.9,
    },
    "bias": {"temperature": 1.0, "logit_bias": ((2, 3.0), (11, -100.0))},
    "min_tokens": {"temperature": 1.0, "min_tokens": 9, "stop_token_ids": frozenset({1, 2})},
}


def _history() -> TokenHistory:
    history = TokenHistory()
    history.extend(PROMPT + OUTPUT, len(PROMPT))
    return history


def _logits(vocabulary: int = 40, seed: int = 0) -> torch.Tensor:
    return torch.randn(vocabulary, generator=torch.Generator().manual_seed(seed)) * 2


def _row(seed: int = 0, drafts: tuple[int, ...] = (), **params: object) -> Row:
    return Row(SamplingParams(99, seed=seed, **params), len(OUTPUT) + len(drafts), _history(), drafts)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
def test_draws_follow_the_definition(case: str) -> None:
    """Chi-square with fixed seeds at the level 0.1 %."""
    scipy_stats = pytest.importorskip("scipy.stats")
    logits = _logits()
    wanted = probabilities(logits, _row(**CASES[case]))
    rows = [_row(seed, **CASES[case]) for seed in range(DRAWS)]
    tokens = torch.tensor(sample(logits.expand(DRAWS, -1), rows))
    counts = torch.bincount(tokens, minlength=len(logits)).double()
    assert counts[wanted == 0].sum() == 0
    rare = (wanted > 0) & (wanted * DRAWS < 5)
    common = wanted * DRAWS >= 5
    observed, expected = counts[common].tolist(), (wanted[common] * DRAWS).tolist()
    if rare.any():
        observed.append(float(counts[rare].sum()))
        expected.append(float(wanted[rare].sum() * DRAWS))
    if len(observed) > 1:
        assert scipy_stats.chisquare(observed, expected).pvalue > 0.001


TRANSFORMERS: dict[str, list[tuple[str, float]]] = {
    "temperature": [("TemperatureLogitsWarper", 0.7)],
    "top_k": [("TemperatureLogitsWarper", 1.3), ("TopKLogitsWarper", 9)],
    "top_p": [("TemperatureLogitsWarper", 1.0 + 1e-9), ("TopPLogitsWarper", 0.8)],
    "min_p": [("TemperatureLogitsWarper", 1.5), ("MinPLogitsWarper", 0.1)],
    "top_k and top_p": [("TemperatureLogitsWarper", 1.2), ("TopKLogitsWarper", 20), ("TopPLogitsWarper", 0.7)],
    "min_p and top_p": [("TemperatureLogitsWarper", 1.6), ("MinPLogitsWarper", 0.05), ("TopPLogitsWarper", 0.9)],
    "all three": [
        ("TemperatureLogitsWarper", 1.6),
        ("MinPLogitsWarper", 0.02),
        ("TopKLogitsWarper", 15),
        ("TopPLogitsWarper", 0.9),
    ],
    "repetition": [("RepetitionPenaltyLogitsProcessor", 1.7)],
}
"""Its classes by name: it loads them when they are asked for."""


@pytest.mark.parametrize("case", TRANSFORMERS)
@pytest.mark.parametrize("seed", range(5))
def test_the_definition_is_transformers(case: str, seed: int) -> None:
    logits = _logits(seed=seed)
    made = [getattr(transformers, name)(value) for name, value in TRANSFORMERS[case]]
    processors = transformers.LogitsProcessorList(made)
    scores = processors(torch.tensor([PROMPT + OUTPUT]), logits.clone().unsqueeze(0))[0]  # type: ignore[arg-type]
    wanted = torch.softmax(scores.double(), dim=-1)
    assert torch.allclose(probabilities(logits, _row(**CASES[case])), wanted, atol=1e-6)


def test_penalties_count_outputs_and_the_drafts_before_a_place() -> None:
    logits = torch.zeros(12)
    row = _row(temperature=1.0, presence_penalty=0.5, frequency_penalty=0.25, drafts=(7, 8))
    chances = probabilities(logits, row).log()
    base = chances[0]
    drops = {5: 0.75, 7: 0.5 + 4 * 0.25, 8: 0.75, 3: 0.0, 9: 0.0}
    assert {token: round(float(base - chances[token]), 6) for token in drops} == drops
    assert row.history is not None and sorted(row.history.ids) == [3, 5, 7, 9], "drafts are counted out again"
    again = probabilities(logits, _row(temperature=1.0, presence_penalty=0.5, frequency_penalty=0.25))
    assert torch.equal(again, probabilities(logits, row._replace(drafts=())))


def test_a_greedy_row_obeys_bias_penalties_and_min_tokens() -> None:
    logits = torch.tensor([0.0, 4.0, 3.9, 0.0])
    greedy = SamplingParams(9)
    rows = [
        Row(greedy, 0),
        Row(SamplingParams(9, logit_bias=((2, 1.0),)), 0),
        Row(SamplingParams(9, min_tokens=1, stop_token_ids=frozenset({1})), 0),
        Row(SamplingParams(9, min_tokens=1, stop_token_ids=frozenset({1})), 1),
    ]
    batch = logits.repeat(4, 1)
    assert sample(batch, rows) == [1, 2, 2, 1]
    assert torch.equal(batch, logits.repeat(4, 1)), "the logits are left as they are"


@pytest.mark.soak
@pytest.mark.parametrize("vocabulary", [320, 1500, 50_257])
def test_a_rows_token_is_its_own_whatever_the_batch(vocabulary: int) -> None:
    """With ties, as half precision makes them, and logits so flat that the last bit of a sum would show."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        generator = torch.Generator().manual_seed(1)
        rows = [_row(seed, **case) for seed, case in enumerate([*CASES.values(), {}] * soak(1, 3))]
        logits = (torch.randn(len(rows), vocabulary, generator=generator)).bfloat16().float()
        together = sample(logits, rows)
        alone = [sample(logits[place : place + 1].clone(), [row]) for place, row in enumerate(rows)]
        assert [token for (token,) in alone] == together
        turned = sample(logits.flip(0), rows[::-1])
        assert turned[::-1] == together
    finally:
        torch.set_num_threads(threads)


def test_large_vocabularies_follow_the_definition_too() -> None:
    """Over several chunks and past the nucleus's first widths, every drawn token is one that may come."""
    logits = _logits(9000, seed=3) / 4
    for params in ({"temperature": 1.0}, {"temperature": 1.0, "top_p": 0.9}, {"temperature": 1.0, "top_p": 0.02}):
        wanted = probabilities(logits, _row(**params))
        tokens = torch.tensor(sample(logits.expand(1500, -1), [_row(seed, **params) for seed in range(1500)]))
        assert bool((wanted[tokens] > 0).all())
        halves = wanted.cumsum(0)
        share = float((halves[tokens] <= 0.5).double().mean())
        assert abs(share - 0.5) < 0.05, params

"""Acceptance in replays beside that in production: as sure as its windows are alike, and no surer."""

import numpy as np
import pytest

from controlplane.contract.planning.draft_acceptance import acceptance_text, compared, counts_in_production


def test_windows_that_differ_make_a_share_less_sure() -> None:
    alike = counts_in_production([(100, 50)] * 20)
    apart = counts_in_production([(100, 90), (100, 10)] * 10)
    assert alike is not None and apart is not None and alike.share == apart.share == 0.5
    assert alike.error == pytest.approx(0.0112, abs=1e-4), "the binomial one is the least"
    assert apart.error == pytest.approx(0.4 / 19**0.5, rel=0.01)


@pytest.mark.parametrize("windows", [[], [(0, 0)], [(99, 50)]])
def test_of_too_few_nothing_is_said(windows: list[tuple[float, float]]) -> None:
    assert counts_in_production(windows) is None


@pytest.mark.parametrize(
    ("runs", "differs"),
    [
        ([(400, 200)], False),
        ([(400, 184)], False),
        ([(400, 100)], True),
        ([(400, 184)] * 50, False),  # The same text again and again makes nothing surer.
        ([(4000, 1800)], True),
        ([(400, 0)], True),
    ],
)
def test_what_differs_by_more_than_chance_is_told(runs: list[tuple[int, int]], differs: bool) -> None:
    production = counts_in_production([(100, 50)] * 100)
    assert production is not None
    found = compared(production, runs)
    assert found is not None and found.differs is differs


@pytest.mark.parametrize("runs", [[], [(0, 0)], [(60, 30), (80, 40)]])
def test_of_too_few_drafts_in_a_run_nothing_is_compared(runs: list[tuple[int, int]]) -> None:
    production = counts_in_production([(100, 50)] * 100)
    assert production is not None and compared(production, runs) is None


@pytest.mark.slow
def test_the_same_text_is_said_to_differ_in_one_case_of_twenty() -> None:
    """Drafts of eight that stand or fall together for the most part, in both."""
    random = np.random.default_rng(5)

    def drafts(count: int) -> np.ndarray:
        return random.binomial(8, random.beta(1.0, 1.0, count))

    told = []
    for _ in range(400):
        production = counts_in_production([(8 * 25, float(drafts(25).sum())) for _ in range(60)])
        assert production is not None
        found = compared(production, [(8 * 100, int(drafts(100).sum()))])
        assert found is not None
        told.append(found.differs)
    assert 0.02 <= np.mean(told) <= 0.09


def test_what_is_told_has_both_with_their_intervals() -> None:
    production = counts_in_production([(100, 70)] * 50)
    assert production is not None
    found = compared(production, [(500, 230)])
    assert found is not None
    said, _, warning = acceptance_text(found).partition(": ")
    assert "more apart than chance" in warning
    assert said == "46.0 % ± 4.4 % of draft tokens in replays, 70.0 % ± 1.3 % in production"

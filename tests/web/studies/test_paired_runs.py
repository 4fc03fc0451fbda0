"""Ratios are of two runs of one pair; what has no partner argues nothing."""

from controlplane.contract.bodies.studies import RunOrder, Trial
from tests.web.studies.test_study_page import DEFAULT, RESULT, WINNER, trial
from web.studies.paired_runs import overall, pair_rows, pairs_sentence


def run(number: int, pair: int, arm: str, objective_s: float | None) -> Trial:
    knobs = DEFAULT if arm == "default" else WINNER
    one = trial(number, "finalist", knobs, objective_s)
    return one.model_copy(update={"order": RunOrder(heat=pair, pair=pair, arm=arm)})


PAIRS = [
    run(3, 0, "default", 0.4),
    run(4, 0, "winner", 0.3),
    run(5, 1, "winner", 0.44),
    run(6, 1, "default", 0.4),
    run(7, 2, "default", 0.4),
    run(8, 2, "winner", None),
    run(9, 3, "default", 0.4),
]


def test_each_pair_says_how_the_winner_did() -> None:
    rows = pair_rows(PAIRS)
    assert [(row.number, row.default_s, row.other_s) for row in rows] == [(1, 0.4, 0.3), (2, 0.4, 0.44)]
    assert rows[0].says == "faster by 25 %" and rows[1].says == "slower by 10 %"
    assert rows[0].bar.ratio < 0.5 < rows[1].bar.ratio, "one scale for all of them"
    assert pairs_sentence(rows).startswith("1 of 2 pairs were faster; the middle one was ")
    assert pair_rows([trial(3, "finalist", DEFAULT, 0.4)]) == [] and pairs_sentence([]) == ""


def test_pairs_are_of_the_winner_and_where_there_is_none_yet_of_the_last_to_meet_the_default() -> None:
    """Another met it first, was faster, and broke a limit."""
    other = DEFAULT | {"max_num_seqs": 2}
    before = [one.model_copy(update={"knobs": other} if one.order.arm == "winner" else {}) for one in PAIRS[:2]]
    after = [run(20, 12, "default", 0.4), run(21, 12, "winner", 0.2)]
    for winner in (None, WINNER):
        assert [(row.number, row.other_s) for row in pair_rows([*before, *after], winner)] == [(1, 0.2)]
    assert [(row.number, row.other_s) for row in pair_rows([*before, *after], other)] == [(1, 0.3)]


def test_the_whole_is_the_result_with_its_interval() -> None:
    bar = overall(RESULT, "TTFT p95")
    assert bar is not None and bar.verdict == "better"
    assert "TTFT p95 is 80 % lower (86 % lower to 71 % lower)" in bar.sentence
    unbounded = RESULT.model_copy(update={"interval": (float("-inf"), 0.9)})
    open_bar = overall(unbounded, "TTFT p95")
    assert open_bar is not None and open_bar.open_high
    assert overall(RESULT.model_copy(update={"repeats": 0}), "x") is None and overall(None, "x") is None

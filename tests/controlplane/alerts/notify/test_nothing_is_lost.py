"""The short form of benchmarks/delivery.py: receivers that fail, hang, drip and close, and a sender that is killed."""

from pathlib import Path

import pytest

from benchmarks.delivery import BEHAVIOURS, GOOD, measure

pytestmark = pytest.mark.slow


@pytest.mark.timeout(300)
def test_each_letter_arrives_in_order_whatever_receivers_and_kills_do(tmp_path: Path) -> None:
    run = measure(tmp_path, alerts=30, per_second=10.0, kills=1, seed=3, patience_s=200.0)
    assert run.kills == 1 and [one.behaviour for one in run.told] == list(BEHAVIOURS)
    assert {one.behaviour: (one.letters, one.lost, one.disordered) for one in run.told} == dict.fromkeys(
        BEHAVIOURS, (36, 0, 0)
    )
    assert all(bool(one.wrong) is (one.behaviour not in GOOD) for one in run.told)

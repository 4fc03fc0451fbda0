"""A fault of the benchmark from its injection to what the incident names: the real store, evaluator and diagnosis."""

import random
from pathlib import Path

import pytest

from benchmarks.attribution_measures.faults import KINDS, drawn
from benchmarks.attribution_measures.named_first import injected, made_past, of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("past") / "service"
    made_past(folder, seed=5)
    return folder


@pytest.mark.parametrize("kind", ["config", "gpu"])
def test_stage_place_and_cause_of_a_strong_fault_are_named(past: Path, tmp_path: Path, kind: str) -> None:
    found = injected(past, tmp_path / "fault", drawn(kind, random.Random(3)), seed=3)
    assert (found.stage, found.place, found.cause) == (True, True, True), found


def test_there_are_fifteen_kinds_and_each_says_what_is_right() -> None:
    faults = [drawn(kind, random.Random(1)) for kind in KINDS]
    assert len(faults) == 15 and all(fault.stages and fault.cause for fault in faults)


def test_shares_come_with_wilsons_interval() -> None:
    assert of(19, 20) == "19 of 20 (76 to 99 %)"

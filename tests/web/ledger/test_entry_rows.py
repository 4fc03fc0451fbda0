"""Trials of a study are one row, and no entry is lost or shown twice, however the pages are cut."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.studies import Study
from web.ledger.entry_rows import address, rows_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def entry(number: int, kind: str = "node.moved", subject: str = "node/gpu-1", **evidence: Any) -> LedgerEntry:
    time = NOW + timedelta(minutes=number)
    return LedgerEntry(
        id=number, time=time, actor="ann", kind=kind, subject=subject, message=f"m{number}", evidence=evidence
    )


def study(number: int, node: str, first: int, last: int | None) -> Study:
    told = {"id": number, "state": "running", "spec": {"pool": "chat"}, "created_by": "ann", "created_at": NOW}
    ended = None if last is None else NOW + timedelta(minutes=last)
    return Study.model_validate(
        told | {"trial_node": node, "started_at": NOW + timedelta(minutes=first), "finished_at": ended}
    )


def trial(number: int, node: str = "t", revision: int = 9) -> LedgerEntry:
    return entry(number, "node.trial_config", f"node/{node}", revision=revision)


def test_trials_are_their_studys_with_the_revisions_made_for_them() -> None:
    entries = [
        trial(9),  # Long after the study.
        entry(8, "rollout.promoted", "rollout/1"),
        trial(6, revision=4),
        entry(5, "revision.created", "revision/4"),
        entry(4, "revision.created", "revision/3"),  # A person's: no trial follows it.
        trial(3),
        trial(2, node="u"),
    ]
    rows, last = rows_of(entries, [study(1, "t", 2, 7), study(2, "t", 0, 1)], 60, fold=True)
    assert last is None
    assert [(row.subject, row.trials, [one.id for one in row.entries]) for row in rows] == [
        ("node/t", 1, [9]),
        ("rollout/1", 0, [8]),
        ("study/1", 2, [6, 5, 3]),
        ("revision/3", 0, [4]),
        ("node/u", 1, [2]),
    ]
    plain, _ = rows_of(entries, [], 60, fold=False)
    assert [(row.trials, len(row.entries)) for row in plain] == [(0, 1)] * len(entries)


@given(st.lists(st.sampled_from(["move", "trial", "made"]), max_size=40), st.integers(1, 8), st.booleans())
def test_pages_of_rows_hold_each_entry_once_in_order(kinds: list[str], most: int, fold: bool) -> None:
    made: dict[str, Callable[[int], LedgerEntry]] = {
        "move": entry,
        "trial": trial,
        "made": lambda at: entry(at, "revision.created", "revision/9"),
    }
    entries = [made[kind](len(kinds) - place) for place, kind in enumerate(kinds)]
    seen: list[int] = []
    rest = entries
    for _ in range(len(entries) + 1):
        rows, last = rows_of(rest, [study(1, "t", 0, 20)], most, fold=fold)
        assert len(rows) <= most
        assert all(row.entries == sorted(row.entries, key=lambda one: -one.id) for row in rows)
        assert [row.newest.id for row in rows] == sorted((row.newest.id for row in rows), reverse=True)
        seen += [one.id for row in rows for one in row.entries]
        if last is None:
            break
        rest = [one for one in rest if one.id < last]
    assert sorted(seen) == sorted(one.id for one in entries)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("rollout/3", "/rollouts/3"),
        ("node/gpu 1/x", "/nodes/gpu%201%2Fx"),
        ("revision/7", "/configs?a=7"),
        ("token/2", "/settings?tab=tokens#token-2"),
        ("alert-rule/1", ""),
        ("silence/1", "/settings?tab=routing#silence-1"),
        ("secrets", ""),
        ("node/", ""),
    ],
)
def test_a_subject_leads_to_its_page(subject: str, expected: str) -> None:
    assert address(subject) == expected

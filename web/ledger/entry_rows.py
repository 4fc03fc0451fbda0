"""The ledger's entries as rows for a reader: what the trials of one study did to its node is one row. Pure.

Guarantee: each entry stands in one row, where its newest one stands; a row's entries are newest first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from urllib.parse import quote

from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.studies import Study

TRIAL = "node.trial_config"
OF_TRIAL = "revision.created"
"""What comes right before a trial that is the first of its revision."""
AFTERWARDS = timedelta(minutes=1)
"""Within it after a study's end its node is put back."""
PAGES = {
    "rollout": "/rollouts/",
    "alert": "/alerts/",
    "incident": "/incidents/",
    "study": "/studies/",
    "node": "/nodes/",
    "revision": "/configs?a=",
}
PAGES |= {"pool": "/?pool=", "token": "/settings?tab=tokens#token-", "person": "/settings?tab=people#person-"}
PAGES |= {"destination": "/settings?tab=destinations#destination-"}
PAGES |= {kind: f"/settings?tab=routing#{kind}-" for kind in ("route", "inhibit-rule", "silence")}
PAGES |= {name: f"/rollouts/policies#{name}-" for name in ("freeze", "pin")}
PAGES |= {"rollout-policy": "/rollouts/policies#policy-"}
"""Where a subject is shown, by the word before its "/"."""


@dataclass
class Row:
    """One entry, or with `trials` > 0 those of the trials of `subject` that are on this page."""

    subject: str
    entries: list[LedgerEntry] = field(default_factory=list)
    trials: int = 0

    @property
    def newest(self) -> LedgerEntry:
        return self.entries[0]

    @property
    def since(self) -> datetime:
        return self.entries[-1].time

    @property
    def actors(self) -> str:
        return ", ".join(dict.fromkeys(entry.actor for entry in self.entries))


def address(subject: str) -> str:
    """The page of a subject such as `rollout/3`; empty for what has none."""
    kind, _, name = subject.partition("/")
    return f"{PAGES[kind]}{quote(name, safe='')}" if kind in PAGES and name else ""


def rows_of(
    entries: Sequence[LedgerEntry], studies: Iterable[Study], most: int, *, fold: bool
) -> tuple[list[Row], int | None]:
    """At most `most` rows, and the number of the last entry in them where `entries` goes on; None: all are in them."""
    known, rows = list(studies), list[Row]()
    folded: dict[str, Row] = {}
    made_for_trials = _made_for_trials(entries)
    last = None
    for entry in entries:
        subject = _trials_of(made_for_trials.get(entry.id, entry), known) if fold else ""
        if subject not in folded:
            if len(rows) == most:
                return rows, last
            row = Row(subject or entry.subject)
            rows.append(row)
            if subject:
                folded[subject] = row
        else:
            row = folded[subject]
        row.entries.append(entry)
        row.trials += bool(subject) and entry.kind == TRIAL
        last = entry.id
    return rows, None


def _made_for_trials(entries: Sequence[LedgerEntry]) -> dict[int, LedgerEntry]:
    """By the number of a revision's entry the trial that it was made for, in the same transaction."""
    return {
        older.id: newer
        for newer, older in pairwise(entries)
        if (newer.kind, older.kind, older.id) == (TRIAL, OF_TRIAL, newer.id - 1)
        and older.subject == f"revision/{newer.evidence.get('revision')}"
    }


def _trials_of(entry: LedgerEntry, studies: Iterable[Study]) -> str:
    """Whose trial the entry is of: the study that had the node then, else the node; empty for no trial's."""
    if entry.kind != TRIAL:
        return ""
    node = entry.subject.removeprefix("node/")
    for study in studies:
        began, ended = study.started_at, study.finished_at
        if study.trial_node != node or began is None or entry.time < began:
            continue
        if ended is None or entry.time <= ended + AFTERWARDS:
            return f"study/{study.id}"
    return entry.subject

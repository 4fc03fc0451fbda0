"""Entries are found by who, what, to what, when and a text; pages together have each entry once."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane import ledger
from controlplane.db.database import Database
from controlplane.ledger import find_entries
from controlplane.ledger.find_entries import Wanted, search
from controlplane.ledger.inspection import verify_newest
from tests.made_tables import migrate

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ACTORS, SUBJECTS = ("ann", "Tailwright"), ("rollout/3", "node/gpu-1")
KINDS = ("rollout.promoted", "rollout.started", "rollout_x.y", "node.moved")
COUNT = 40


def told(index: int) -> dict[str, str]:
    """What entry number `index + 1` says."""
    return {
        "actor": ACTORS[index % 2],
        "kind": KINDS[index % 4],
        "subject": SUBJECTS[index // 2 % 2],
        "message": f"100 % of it, number_{index}",
    }


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    made = Database(f"sqlite:///{Path(tmp_path_factory.mktemp('ledger')) / 'ledger.db'}")
    migrate(made)
    with made.session() as session:
        for index in range(COUNT):
            ledger.append(session, NOW + timedelta(minutes=index), **told(index))
    yield made
    made.close()


def numbers(database: Database, limit: int, **wanted: Any) -> list[int]:
    """Of all entries found, page after page."""
    found: list[int] = []
    before = None
    with database.read_session() as session:
        for _ in range(COUNT + 2):
            page = search(session, Wanted(**wanted), before_id=before, limit=limit)
            assert len(page.items) <= limit
            found += [entry.id for entry in page.items]
            if page.next is None:
                return found
            before = int(page.next)
    raise AssertionError("the pages do not end")


@given(
    limit=st.integers(1, COUNT + 1),
    looked_at=st.integers(1, COUNT + 5),
    kind=st.sampled_from([None, "rollout", "rollout.started", "node"]),
    actor=st.sampled_from([None, *ACTORS, "nobody"]),
    subject=st.sampled_from([None, *SUBJECTS]),
    text=st.sampled_from([None, "NUMBER_1", "100 %", "ANN", "gpu", "_x", "nowhere"]),
    first=st.none() | st.integers(0, COUNT),
    last=st.none() | st.integers(0, COUNT),
)
def test_the_pages_together_have_what_matches_each_once(
    database: Database,
    limit: int,
    looked_at: int,
    kind: str | None,
    actor: str | None,
    subject: str | None,
    text: str | None,
    first: int | None,
    last: int | None,
) -> None:
    def matches(index: int) -> bool:
        entry = told(index)
        return (
            (kind is None or entry["kind"] == kind or entry["kind"].startswith(f"{kind}."))
            and actor in (None, entry["actor"])
            and subject in (None, entry["subject"])
            and (text is None or any(text.lower() in value.lower() for value in entry.values()))
            and (first is None or index >= first)
            and (last is None or index < last)
        )

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(find_entries, "LOOKED_AT", looked_at)
        found = numbers(
            database,
            limit,
            kind=kind,
            actor=actor,
            subject=subject,
            text=text,
            start=None if first is None else NOW + timedelta(minutes=first),
            end=None if last is None else NOW + timedelta(minutes=last),
        )
    assert found == [index + 1 for index in reversed(range(COUNT)) if matches(index)]


def test_a_check_of_the_newest_tells_which_entry_is_not_as_it_was_written(tmp_path: Path) -> None:
    made = Database(f"sqlite:///{tmp_path / 'ledger.db'}")
    migrate(made)
    assert verify_newest(made, 5)[1:] == (0, None)
    with made.session() as session:
        for index in range(9):
            ledger.append(session, NOW, **told(index))
    head, first, wrong = verify_newest(made, 5)
    assert (head.id, first, wrong) == (9, 5, None)
    assert verify_newest(made, 100)[1:] == (1, None)
    with made.session() as session:
        connection = session.connection()
        connection.exec_driver_sql("DROP TRIGGER ledger_no_update")
        connection.exec_driver_sql("UPDATE ledger SET actor = 'eve' WHERE id = 7")
    assert str(verify_newest(made, 5)[2]) == "ledger entry 7 was changed"
    assert verify_newest(made, 2)[2] is None
    made.close()

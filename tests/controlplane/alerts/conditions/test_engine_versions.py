"""From the ledger's entries of nodes to baselines that begin anew."""

from datetime import UTC, datetime, timedelta

from controlplane.alerts.conditions.engine_versions import KIND, version_moves
from controlplane.alerts.windows.pool_record import Move
from controlplane.contract.bodies.ledger import LedgerEntry

START = datetime(2030, 1, 1, tzinfo=UTC)


def entry(number: int, second: float, version: str, pool: str = "main") -> LedgerEntry:
    return LedgerEntry(
        id=number,
        time=START + timedelta(seconds=second),
        actor="agent a",
        kind=KIND,
        subject="node/a",
        message="",
        evidence={"pool": pool, "version": version},
    )


def test_a_version_that_goes_from_node_to_node_is_one_move_at_the_latest() -> None:
    found = version_moves([entry(1, 0, "e 2"), entry(2, 60, "e 2"), entry(3, 90, "e 2", "other"), entry(4, 300, "e 1")])
    began_s = START.timestamp()
    assert found["main"] == [Move(-1, began_s + 60, None, "e 2"), Move(-4, began_s + 300, None, "e 1")]
    assert found["other"] == [Move(-3, began_s + 90, None, "e 2")]


def test_entries_that_name_no_pool_or_version_move_nothing() -> None:
    assert version_moves([entry(2, 0, ""), entry(3, 0, "e", "")]) == {}

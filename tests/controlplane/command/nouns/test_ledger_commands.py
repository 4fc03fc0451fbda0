"""`tailwright ledger list` and `show`: the newest entries, page by page, and one with its evidence."""

from tests.controlplane.command.nouns.plane import Plane


def test_the_ledger_is_read(plane: Plane) -> None:
    assert plane.json("ledger", "list", "--limit", 2) == plane.get("ledger", limit=2)
    first = plane.json("ledger", "list", "--limit", 2)
    rest = plane.json("ledger", "list", "--cursor", first["next"])
    assert rest["items"][0]["id"] == first["items"][-1]["id"] - 1
    enrolled = plane.json("ledger", "list", "--kind", "node.enrolled", "--subject", "node/gpu-1")["items"]
    assert len(enrolled) == 1 and plane.json("ledger", "show", enrolled[0]["id"]) == enrolled[0]
    assert "node/gpu-1" in plane.run("ledger", "show", enrolled[0]["id"]).stdout
    assert "node.enrolled" in plane.run("ledger", "list").stdout
    assert "no ledger entry 4711" in plane.run("ledger", "show", 4711, status=1).stderr

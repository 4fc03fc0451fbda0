"""What tests share within a process is shared, and is what each would have made."""

import ssl
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, text
from sqlmodel import SQLModel, select

from controlplane.db.database import Database
from controlplane.ledger.tables import LedgerRow
from tests import shared_authorities, shared_out
from tests.made_tables import create_tables


def test_a_statement_is_compiled_for_the_first_database_and_answers_of_each(tmp_path: Path) -> None:
    databases = [Database(f"sqlite:///{tmp_path / name}.db") for name in ("one", "other")]
    caches = [database.engine._compiled_cache for database in databases]
    assert caches[0] is caches[1] and caches[0] is not None
    sizes = []
    for database in databases:
        create_tables(database, SQLModel.metadata)
        with database.session() as session:
            assert session.exec(select(LedgerRow.id).where(LedgerRow.id == -7)).all() == []
        sizes.append(len(caches[0]))
    assert sizes[0] == sizes[1] > 0

    def name(connection: Connection) -> str:
        return str(connection.execute(text("PRAGMA database_list")).all()[0][2])

    with databases[0].engine.connect() as one, databases[1].engine.connect() as other:
        assert (Path(name(one)).name, Path(name(other)).name) == ("one.db", "other.db")
    for database in databases:
        database.close()


def trusted_by(client: httpx.Client) -> ssl.SSLContext:
    found = client._transport._pool._ssl_context  # type: ignore[attr-defined]
    assert isinstance(found, ssl.SSLContext)
    return found


def test_clients_that_trust_the_public_authorities_share_them_and_no_other() -> None:
    own = ssl.create_default_context()
    with httpx.Client() as one, httpx.Client() as other, httpx.Client(verify=own) as apart:
        assert trusted_by(one) is trusted_by(other) and trusted_by(apart) is own
        assert trusted_by(one).verify_mode is ssl.CERT_REQUIRED and trusted_by(one).check_hostname
    with httpx.Client(verify=False) as careless:
        assert trusted_by(careless).verify_mode is ssl.CERT_NONE


def test_another_file_of_authorities_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bool] = []

    def create(trust_env: bool = True, **_: object) -> ssl.SSLContext:
        read.append(trust_env)
        return ssl.create_default_context()

    sharing = shared_authorities.share(create)
    assert sharing() is sharing() and sharing(trust_env=False) is not sharing()
    monkeypatch.setenv("SSL_CERT_FILE", "another.pem")
    sharing()
    assert read == [True, False, True]


WANTED = {"stack.py": ["browser", "stack"], "pages.py": ["browser"], "stores.py": ["postgres_url"]}


@pytest.mark.parametrize(
    ("own", "others", "taken"),
    [
        (set(), set(), "stack.py"),
        (set(), {"browser", "stack"}, "stores.py"),
        (set(), {"browser", "stack", "postgres_url"}, "plain.py"),
        ({"browser"}, {"browser", "stack", "postgres_url"}, "pages.py"),
        ({"postgres_url"}, {"browser", "stack"}, "stores.py"),
        ({"stack"}, {"browser", "postgres_url"}, "stack.py"),
    ],
)
def test_a_file_is_left_to_the_worker_that_has_what_it_wants(own: set[str], others: set[str], taken: str) -> None:
    assert shared_out.next_file([*WANTED, "plain.py"], WANTED, own, others) == taken


def test_where_no_other_file_is_left_a_worker_starts_what_another_has() -> None:
    assert shared_out.next_file(["stack.py", "pages.py"], WANTED, set(), {"browser", "stack"}) == "pages.py"
    assert (
        shared_out.next_file(["stack.py", "stores.py"], WANTED, {"browser"}, {"stack", "postgres_url"}) == "stores.py"
    )


@pytest.mark.parametrize("on", ["postgresql"])
def test_a_file_wants_what_its_tests_ask_for(request: pytest.FixtureRequest, wait_for: object, on: str) -> None:
    found = shared_out.wanted_by_file([request.node], {"stack"})
    assert found == {shared_out.file_of(request.node.nodeid): ["postgres_url", "tests: wait_for"]}

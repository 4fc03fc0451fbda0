"""A fresh database for every run: a file, or a database of a server, copied from one that was upgraded once."""

import shutil
from pathlib import Path
from typing import Protocol

from sqlalchemy import create_engine, make_url

from controlplane.app.tables import all_tables
from controlplane.db.database import Database
from controlplane.db.migrate import upgrade


class Databases(Protocol):
    """`make` gives the URL of an empty one, `drop` removes it."""

    def make(self, name: str) -> str: ...

    def drop(self, url: str) -> None: ...


class Files:
    """SQLite."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._template = folder, folder / "template.db"
        _upgraded(f"sqlite:///{self._template}")

    def make(self, name: str) -> str:
        path = self._folder / f"{name}.db"
        shutil.copyfile(self._template, path)
        return f"sqlite:///{path}"

    def drop(self, url: str) -> None:
        path = Path(url.removeprefix("sqlite:///"))
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


class OnServer:
    """PostgreSQL. url: of a database of a server whose user may make others."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._engine = create_engine(self._url, isolation_level="AUTOCOMMIT")
        self._say("DROP DATABASE IF EXISTS rollout_chaos_template", "CREATE DATABASE rollout_chaos_template")
        _upgraded(self._of("rollout_chaos_template"))

    def make(self, name: str) -> str:
        self._say(
            f"DROP DATABASE IF EXISTS rollout_chaos_{name}",
            f"CREATE DATABASE rollout_chaos_{name} TEMPLATE rollout_chaos_template",
        )
        return self._of(f"rollout_chaos_{name}")

    def drop(self, url: str) -> None:
        self._say(f"DROP DATABASE {make_url(url).database}")

    def _of(self, database: str) -> str:
        return self._url.set(database=database).render_as_string(hide_password=False)

    def _say(self, *statements: str) -> None:
        with self._engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)


def _upgraded(url: str) -> None:
    all_tables()
    database = Database(url)
    upgrade(database)
    database.close()

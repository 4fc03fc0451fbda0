"""Tables that tests make by noted statements are those of the real thing."""

from pathlib import Path

import pytest
from sqlalchemy import text

from controlplane.db.database import Database
from controlplane.db.migrate import upgrade
from tests.made_tables import migrate


@pytest.mark.parametrize("times", [1, 2])
def test_noted_statements_make_what_an_upgrade_makes(tmp_path: Path, times: int) -> None:
    found = []
    for name, make in (("real", upgrade), *((f"noted{number}", migrate) for number in range(times))):
        made = Database(f"sqlite:///{tmp_path / name}.db")
        make(made)
        with made.engine.connect() as connection:
            step = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
            rows = connection.execute(text("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")).all()
            found.append((step, [tuple(row) for row in rows]))
        made.close()
    assert len(found[0][1]) > 50 and all(one == found[0] for one in found)

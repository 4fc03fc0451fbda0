"""For developers: `python -m controlplane.app.new_migration "what changes"` writes the next migration step.

The step is the difference between what the existing steps make and what the tables say now. Check it by hand.
"""

import sys
import tempfile
from pathlib import Path

from controlplane.app.tables import all_tables
from controlplane.db import migrate
from controlplane.db.database import Database


def write(message: str) -> None:
    steps = migrate.MIGRATIONS / "versions"
    steps.mkdir(exist_ok=True)
    number = 1 + max((int(step.name[:4]) for step in steps.glob("[0-9]*.py")), default=0)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'scratch.db'}")
        migrate.upgrade(database)
        migrate.write_step(database, all_tables(), message, f"{number:04d}")
        database.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit('usage: python -m controlplane.app.new_migration "what changes"')
    write(sys.argv[1])

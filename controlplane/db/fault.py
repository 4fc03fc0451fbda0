"""A database's error in the operator's words: what is known to have one mend is called by its name."""

from sqlalchemy.exc import DBAPIError

DISK_FULL = "the disk is full"
READ_ONLY = "the database is read-only"
DISK_FAILING = "the disk answers with errors"
SAYING = frozenset({DISK_FULL, READ_ONLY, DISK_FAILING})
"""Those that tell an operator what to mend."""

_BY_SQLITE_NAME = {"SQLITE_FULL": DISK_FULL, "SQLITE_READONLY": READ_ONLY}
_BY_SQLSTATE = {"53100": DISK_FULL, "25006": READ_ONLY}
"""PostgreSQL, Appendix A: disk_full, read_only_sql_transaction."""


def named(error: BaseException) -> str:
    """The fault's name, or else the kind of the error; never its text, which may be shown to anybody."""
    driver = error.orig if isinstance(error, DBAPIError) else None
    sqlite_name = str(getattr(driver, "sqlite_errorname", ""))
    known = DISK_FAILING if sqlite_name.startswith("SQLITE_IOERR") else _BY_SQLITE_NAME.get(sqlite_name)
    return known or _BY_SQLSTATE.get(getattr(driver, "sqlstate", None) or "") or type(error).__name__

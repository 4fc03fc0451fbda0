"""How large the database is."""

from sqlalchemy import text
from sqlmodel import Session

_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}


def database_bytes(session: Session) -> int:
    """Bytes of all that it holds, free pages included."""
    return int(session.execute(text(_SIZE[session.get_bind().dialect.name])).scalar_one())

"""A ClickHouse that may be away: its tables are made once it answers, and what its last statement came to is known.

Guarantee: nothing is asked of it before its schema is there; `fault` is empty exactly while its last answer was good.
"""

import logging
import threading
from collections.abc import Sequence

from controlplane.contract.errors import Unavailable
from controlplane.telemetry.frames.clickhouse import ClickHouse

logger = logging.getLogger(__name__)


class LateClickHouse(ClickHouse):
    """`clickhouse`, with each statement of `schema` (which must bear repeating) before the first other one."""

    def __init__(self, clickhouse: ClickHouse, schema: Sequence[str]) -> None:
        self.fault = ""
        """Why the last statement failed, in ClickHouse's own words."""
        self._clickhouse = clickhouse
        self._schema = tuple(schema)
        self._making = threading.Lock()
        self._made = False

    def make(self) -> None:
        """See to it that the schema is there."""
        if not self._made:
            self.ask(self._schema[-1])

    def ask(self, statement: str, body: bytes | None = None) -> bytes:
        try:
            self._make()
            answer = self._clickhouse.ask(statement, body)
        except Unavailable as error:
            if not self.fault:
                logger.warning("frames cannot be read or written: %s", error.message)
            self.fault = error.message
            raise
        if self.fault:
            logger.warning("frames can be read and written again")
            self.fault = ""
        return answer

    def _make(self) -> None:
        if self._made:
            return
        with self._making:
            for statement in self._schema:
                self._clickhouse.execute(statement)
            self._made = True

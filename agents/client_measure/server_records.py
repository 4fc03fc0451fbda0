"""The server's records of what this program asked for, from the control plane, and the join with its own.

A server's record is there once its agent has reported it, some seconds after the request: `NetworkJoin` keeps a record
until then, and counts each network time once.
"""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from agents.client_measure.client_record import ClientRecord, Ending
from agents.client_measure.join import JoinResult, NetworkTime, join
from agents.client_measure.recorder import Recorder

if TYPE_CHECKING:
    from controlplane.client import Client
    from controlplane.contract.bodies.workload import RequestRecord

CLOCK_SLACK_S = 60.0
"""How far the servers' clocks may be from this one's: it only widens what is asked for."""
MOST_RECORDS = 100_000
GIVE_UP_S = 300.0
_PAGE = 500


def network_times(
    client: "Client", records: Sequence[ClientRecord], *, pool: str | None = None, slack_s: float = CLOCK_SLACK_S
) -> JoinResult:
    """`join` with the service's records of the time in which these were made. Raises what the client raises."""
    return join(records, _server_records(client, records, pool, slack_s))


def _server_records(
    client: "Client", records: Sequence[ClientRecord], pool: str | None, slack_s: float
) -> Iterable["RequestRecord"]:
    from controlplane.contract.bodies.workload import RequestRecord

    if not records:
        return ()
    slack = timedelta(seconds=slack_s)
    start = datetime.fromtimestamp(min(record.started for record in records), UTC) - slack
    end = datetime.fromtimestamp(max(record.started for record in records), UTC) + slack
    found = client.every(
        RequestRecord, "/api/v1/requests", pool=pool, start=start, end=end, order="newest", limit=_PAGE
    )
    return islice(found, MOST_RECORDS)


class NetworkJoin:
    """Joins a recorder's records as the server's arrive, and has the recorder count the network times.

    Call `collect` now and then, such as each half minute; what has no counterpart within `give_up_s` is given up.
    """

    def __init__(
        self, recorder: Recorder, client: "Client", *, pool: str | None = None, give_up_s: float = GIVE_UP_S
    ) -> None:
        self._recorder, self._client, self._pool, self._give_up_s = recorder, client, pool, give_up_s
        self._waiting: list[ClientRecord] = []
        self.given_up = 0

    def collect(self, now: float | None = None) -> tuple[NetworkTime, ...]:
        """What could be joined since the last call. now: seconds since the epoch. Raises what the client raises; the
        records are kept then."""
        taken = self._recorder.take_records()
        self._waiting += [record for record in taken if record.ending is Ending.COMPLETE]
        matched = network_times(self._client, self._waiting, pool=self._pool).matched
        self._recorder.record_network(matched)
        joined = {found.request_id for found in matched}
        oldest = (time.time() if now is None else now) - self._give_up_s
        left = [record for record in self._waiting if record.request_id not in joined]
        self._waiting = [record for record in left if record.started + record.e2e_s >= oldest]
        self.given_up += len(left) - len(self._waiting)
        return matched

"""What a client of a serving engine sees: the same times as the server's, from outside, and the network between.

`measure` for any stream; `wrap_httpx` and `wrap_openai` for clients as they are; a `Recorder` that adds up, tells and
ships; `join` and `NetworkJoin` for network time by request id. docs/client.md shows each. Importing this loads neither
torch nor httpx nor openai.
"""

from agents.client_measure.client_record import ClientRecord, Ending
from agents.client_measure.iteration import MeasuredAsyncStream, MeasuredStream, measure
from agents.client_measure.join import JoinResult, NetworkTime, ServerRecord, join
from agents.client_measure.recorder import Recorder
from agents.client_measure.recorder_snapshot import Snapshot
from agents.client_measure.server_records import NetworkJoin, network_times
from agents.client_measure.transport import OPERATIONS, timed_transport
from agents.client_measure.wrapping import unwrap_httpx, wrap_httpx, wrap_openai

__all__ = [
    "OPERATIONS",
    "ClientRecord",
    "Ending",
    "JoinResult",
    "MeasuredAsyncStream",
    "MeasuredStream",
    "NetworkJoin",
    "NetworkTime",
    "Recorder",
    "ServerRecord",
    "Snapshot",
    "join",
    "measure",
    "network_times",
    "timed_transport",
    "unwrap_httpx",
    "wrap_httpx",
    "wrap_openai",
]

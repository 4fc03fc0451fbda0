"""Finish reasons: how a request ended, in the words that engine, plugin, proxy and scraper report, and which are lost.

Guarantee: one definition of a lost request for judge, alerts and studies. A request that the server failed, gave up,
shed, refused or dropped is lost (`FAILED`). One that its client left (`ABORT`) is the client's doing: it counts neither
as lost nor as offered.
"""

STOP = "stop"  # A stop token or stop string.
LENGTH = "length"  # The most tokens it asked for.
REPETITION = "repetition"  # vLLM ended an answer that repeats itself; the client has it whole.
ABORT = "abort"  # Its client went away.
ERROR = "error"  # The engine failed, or was stopped before the answer was whole.
TIMEOUT = "timeout"  # Its deadline passed.
SHED = "shed"  # Given up while it waited, for one that is more urgent.
REFUSED = "refused"  # Turned away at the door (429, 503): a full queue, a deadline that cannot be met, no server.
DISCONNECT = "disconnect"  # The server went away with the request, before or in the middle of its answer.

COMPLETE: frozenset[str] = frozenset({STOP, LENGTH, REPETITION})
"""Its latencies count; every other request counts as a request only."""

FAILED: frozenset[str] = frozenset({ERROR, TIMEOUT, SHED, REFUSED, DISCONNECT})
"""Lost by the server."""

CLIENT: frozenset[str] = frozenset({ABORT})
"""Ended by the client: not offered to the server to the end, so in no share of what it served."""

ALL: frozenset[str] = COMPLETE | FAILED | CLIENT

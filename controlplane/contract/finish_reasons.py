"""Why a request ended, and which of these ends are failures of the service: one list for alerts, judge and studies.

The words are those of the attribute `FINISH_REASON` on `REQUESTS`. What a client does of its own will is no failure.
"""

STOP = "stop"  # A stop token or string.
LENGTH = "length"  # As many tokens as were asked for.
ABORT = "abort"  # The client went away.
ERROR = "error"  # The engine failed.
TIMEOUT = "timeout"  # Its deadline passed.
SHED = "shed"  # Refused after it was queued, to make room.
REFUSED = "refused"  # Refused at the door: 429 or 503.
DISCONNECT = "disconnect"  # The server closed the connection before the answer was whole.

FAILED: frozenset[str] = frozenset({ERROR, TIMEOUT, SHED, REFUSED, DISCONNECT})
"""The user did not get the answer that was asked for, and it was not the user's doing."""

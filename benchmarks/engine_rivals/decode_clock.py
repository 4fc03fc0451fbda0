"""The decode rate, defined once for every contestant. Standard library alone.

Decoding begins when every request of the batch has its first token and ends with the last token of all; the rate is
the tokens that came between, over the time between. So prompts' work is outside it, sampling and scheduling inside.
"""

import time
from collections.abc import Sequence
from typing import Any


class DecodeClock:
    """Created when the requests are handed over; told after each step how many tokens each request has."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._began = time.perf_counter()
        self._cpu_began = 0.0
        self._all_started: float | None = None
        self._tokens_then = 0

    def step(self, counts: Sequence[int], now: float | None = None) -> None:
        """counts: output tokens of the requests that have any."""
        if self._all_started is None and len(counts) == self._requests and min(counts) > 0:
            self._all_started = time.perf_counter() if now is None else now
            self._cpu_began = time.process_time()
            self._tokens_then = sum(counts)

    def result(self, outputs: list[list[int]], ended: float | None = None) -> dict[str, Any]:
        """first_s, total_s: until all had their first, and their last token; decode_tokens and decode_s as above;
        busy_cores: CPU seconds a second while decoding, which shows how many threads really worked."""
        assert self._all_started is not None
        end = time.perf_counter() if ended is None else ended
        decode_s = end - self._all_started
        return {
            "first_s": self._all_started - self._began,
            "total_s": end - self._began,
            "decode_s": decode_s,
            "decode_tokens": sum(map(len, outputs)) - self._tokens_then,
            "busy_cores": (time.process_time() - self._cpu_began) / decode_s if decode_s else 0.0,
            "outputs": outputs,
        }

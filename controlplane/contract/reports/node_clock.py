"""How far a node's clock is from the service's, as its agent measures it.

Requests are shown at the time that the node's clock said: where it is off, so is the picture.
"""

from dataclasses import dataclass

from controlplane.contract.duration_text import duration_text

FAR_S = 1.0


@dataclass(frozen=True)
class NodeClock:
    """`offset_s`: the service's clock less the node's, off by at most `error_s`."""

    offset_s: float
    error_s: float

    @property
    def words(self) -> str:
        """For people: "400 µs behind the service's, ± 1 ms"."""
        side = "behind" if self.offset_s > 0 else "ahead of"
        return f"{duration_text(abs(self.offset_s))} {side} the service's, ± {duration_text(self.error_s)}"

    @property
    def hint(self) -> str:
        """What to do about a clock that is off by more than `FAR_S` for sure; else empty."""
        far = abs(self.offset_s) - self.error_s > FAR_S
        return "its requests are shown at the wrong time: set the node's clock (NTP)" if far else ""

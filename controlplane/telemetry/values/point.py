"""Windows of event time."""

from controlplane.contract.metrics import WINDOW_NS


def window_of(end_ns: int) -> int:
    """The window of a time span that ends at `end_ns` (spans exclude their start and include their end, as in OTLP)."""
    return (end_ns - 1) // WINDOW_NS

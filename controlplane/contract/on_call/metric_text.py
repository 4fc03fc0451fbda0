"""How metrics are called in words: the same on a page, in a terminal and in an alert."""

from controlplane.contract.metrics import E2E, ITL, TPOT, TTFT

ACRONYMS = frozenset(metric.short for metric in (TTFT, ITL, TPOT, E2E))


def metric_name(short: str) -> str:
    """TTFT, ITL, TPOT and E2E in capitals; a part as it is."""
    return short.upper() if short in ACRONYMS else short


def metric_title(short: str) -> str:
    """At the beginning of a sentence: "TTFT", "Prefill", "Step forward"."""
    words = metric_name(short).replace("_", " ")
    return words[:1].upper() + words[1:]

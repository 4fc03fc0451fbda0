"""When in each report interval a node sends: spread over the fleet, the same for one node always.

All agents seal their windows at the same moments, the multiples of the interval, so that windows compare. Sent at once,
thousands of reports would come in one burst and then none for seconds. So each node waits for its own share of the
interval, drawn from a hash of its name. Guarantee: the wait is no longer than leaves a report in time for those who
judge (alerts, rollouts), wherever an unspread one would be.
"""

from hashlib import blake2b

JUDGED_AFTER_S = 10.0
"""Alerts and rollouts look at a window so long after its end."""
SLACK_S = 1.0
"""For the grace that a window is given, and for the way."""


def phase_s(node: str, interval_s: float, window_s: float) -> float:
    """Seconds between the storing of a report of this node and its sending, from 0 up to the interval."""
    share = int.from_bytes(blake2b(node.encode(), digest_size=8, person=b"tailwright-phase").digest(), "little") / 2**64
    # The first window of a long interval is old already when the report is made.
    left_s = JUDGED_AFTER_S - SLACK_S - max(interval_s - window_s, 0.0)
    return share * (min(interval_s, left_s) if left_s > 0 else interval_s)

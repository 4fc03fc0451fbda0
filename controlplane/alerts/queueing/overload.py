"""What explains that a pool does not keep up: an exact decomposition of the load per capacity, in factors.

Load per capacity = requests a second x tokens a request / (nodes x tokens a second that a node serves). Each factor is
what it is now over what it was: requests and their tokens against the past's mean, nodes and their capacity against the
knee. The logarithms add up, so each has its share of the growth.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.alerts.queueing.knee import Usual
from controlplane.alerts.queueing.pool_load import PoolLoad

LEAST_S = 10.0
"""Over so long at least the load of an alarm is measured."""
REQUESTS, TOKENS, NODES, CAPACITY = "requests", "tokens_each", "nodes", "capacity_each"


@dataclass(frozen=True)
class Pressure:
    """Rates a second over all nodes, from the onset on. unit: what loads are told in, tokens or requests.

    factors: by name; above 1 is more. shares: of the growth of the load per capacity, of those that made it grow.
    """

    arrived: float
    served: float
    knee: float
    unit: str
    factors: Mapping[str, float]
    shares: Mapping[str, float]

    @property
    def leading(self) -> str:
        """The factor that explains most; "" where none does."""
        return max(self.shares, key=lambda name: self.shares[name], default="")

    @property
    def words(self) -> str:
        told = {
            REQUESTS: "{:.2g} times the usual requests",
            TOKENS: "{:.2g} times the usual tokens in a request",
            NODES: "{:.2g} times the nodes",
            CAPACITY: "each node serves {:.2g} times what it did at the knee",
        }
        by_share = sorted(self.shares, key=lambda name: -self.shares[name])
        return ", ".join(told[name].format(self.factors[name]) for name in by_share if self.shares[name] >= 0.1)


def pressure(load: PoolLoad, known: Usual, onset: int) -> Pressure:
    """Since tick `onset`."""
    now = slice(max(min(onset, len(load) - load.ticks_of(LEAST_S)), 0), len(load))
    seconds = load.step_s * (now.stop - now.start)
    arrived, served = float(load.arrived[now].sum()) / seconds, float(load.served[now].sum()) / seconds
    each = load.tokens_each(now) or known.tokens_each
    told = bool(each and known.knee_tokens)
    capacity = served * each if told else served
    knee, nodes = (known.knee_tokens if told else known.knee_requests), float(load.nodes[-1])
    factors = {REQUESTS: _ratio(arrived, known.requests), NODES: _ratio(nodes, known.nodes)}
    if told:
        factors[TOKENS] = _ratio(each, known.tokens_each)
    # What is served while others wait is all that can be, and the knee is at most what could be: it fell by this much
    # at least.
    factors[CAPACITY] = min(_ratio(capacity, knee) / (factors[NODES] or 1.0), 1.0)
    growth = {name: _log(factor) * (1 if name in (REQUESTS, TOKENS) else -1) for name, factor in factors.items()}
    whole = sum(max(one, 0.0) for one in growth.values())
    shares = {name: one / whole for name, one in growth.items() if one > 0.0} if whole else {}
    unit = "tokens" if told else "requests"
    return Pressure(arrived * each if told else arrived, capacity, knee, unit, factors, shares)


def _ratio(now: float, then: float) -> float:
    return now / then if then > 0.0 and now >= 0.0 else 1.0


def _log(factor: float) -> float:
    return math.log(max(factor, 1e-3))

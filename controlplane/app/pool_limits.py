"""A pool's SLO limits: those that its enabled absolute alert rules page for. Rollouts to it are judged by them too.

Guarantee: each quantile of a metric has one limit, the tightest; what pages people is what a canary must keep.
"""

from sqlmodel import Session

from controlplane.alerts import store as alerts
from controlplane.alerts.conditions.absolute import limits_of
from controlplane.contract.bodies.alerts import AbsoluteCondition
from controlplane.contract.bodies.slo import Limit


def pool_limits(session: Session, pool: str) -> list[Limit]:
    """By metric and quantile, rising."""
    found: dict[tuple[str, float], Limit] = {}
    for rule in alerts.rules(session, enabled_only=True):
        condition = rule.condition
        if not isinstance(condition, AbsoluteCondition) or rule.pool not in (None, pool):
            continue
        for limit in limits_of(condition):
            known = found.get((limit.metric, limit.q))
            if known is None or limit.limit_s < known.limit_s:
                found[limit.metric, limit.q] = limit
    return [found[place] for place in sorted(found)]

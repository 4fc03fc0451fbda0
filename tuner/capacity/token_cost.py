"""What output tokens cost at the largest load within the limits, and what a cheaper configuration saves a day. Pure.

Node seconds for 1,000 tokens are 1,000 / (requests a second at that load x output tokens a request): the interval is
that of the load. Answers are as long as they were, whatever is set; what is lost of them is within its own limit.
"""

from __future__ import annotations

from controlplane.contract.bodies.studies import Costs, TokenCost
from controlplane.contract.planning.measurement import TOKENS_COSTED, CarriedLoad, Carries
from tuner.capacity.carried_load import counted

DAY_S, HOUR_S = 86_400, 3_600


def token_cost(carries: Carries, run: CarriedLoad, times: float) -> TokenCost | None:
    """`carries`: of a configuration; `run`: any run of the same slice, whose rate and tokens count; `times`: as for
    `carried_load`. None where nobody told the tokens."""
    if run.cost_s is None:
        return None
    captured_s = run.cost_s * times * counted(run.load / times)
    return TokenCost(
        node_s=captured_s / (times * counted(carries.load / times)),
        low_s=captured_s / carries.high if carries.high else 0.0,
        high_s=captured_s / carries.low if carries.low else None,
    )


def costs_of(
    default: TokenCost,
    winner: TokenCost | None,
    tokens_per_s: float | None,
    saved: tuple[float, float, float] | None = None,
) -> Costs:
    """`tokens_per_s`: of the pool's captured traffic; `saved`: the share of the default's cost, and its interval."""
    if not tokens_per_s:
        return Costs(default=default, winner=winner)
    found = Costs(default=default, winner=winner, tokens_per_day=round(tokens_per_s * DAY_S))
    if winner is None or saved is None:
        return found
    node_h = tokens_per_s * DAY_S / TOKENS_COSTED * default.node_s / HOUR_S
    estimate, low, high = (round(node_h * share, 4) for share in saved)
    return found.model_copy(update={"saved_node_h": estimate, "saved_interval": (low, high)})

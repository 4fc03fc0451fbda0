"""The measured study with three objectives and a front, as its worker would tell it."""

from controlplane.contract.bodies.studies import (
    AlsoFound,
    Costs,
    FrontMember,
    FrontValue,
    Objective,
    Study,
    TokenCost,
    Trial,
)
from tests.web.studies.measured_study import DEFAULT, RESULT, SPEC, WINNER, study, trials

TPOT, COST = Objective(objective="tpot", objective_q=0.5), Objective(objective="cost")
BESIDE = [(0.010, 6.2), (0.008, 5.0), (0.012, 4.1), (0.009, 5.2), (0.011, 4.4), None]
"""Of each trial of the search."""
SLOW = {**DEFAULT, "max_num_batched_tokens": 256, "prefill_chunk_size": 128}


def member(number: int, knobs: dict[str, object], *values_s: float) -> FrontMember:
    names = ("e2e:0.95", TPOT.name, COST.name)
    told = {
        name: FrontValue(value_s=value, low_s=0.9 * value, high_s=1.1 * value)
        for name, value in zip(names, values_s, strict=False)
    }
    return FrontMember(number=number, runs=1, knobs=knobs, values=told, keeps_limits=0.93)


def studied(*, two: bool = False, finished: bool = True) -> Study:
    """two: of its objectives; finished: with a result."""
    also = [TPOT] if two else [TPOT, COST]
    count = 1 + len(also)
    spec = SPEC.model_copy(update={"also": also, "node_hour_price": 2.0, "currency": "EUR"})
    front = [member(2, WINNER, 0.45, 0.012, 4.1), member(3, SLOW, 0.63, 0.009, 5.2)]
    front = [one.model_copy(update={"values": dict(list(one.values.items())[:count])}) for one in front]
    cost = TokenCost(node_s=6.2, low_s=5.5, high_s=7.1)
    result = RESULT.model_copy(
        update={
            "front": front,
            "also": [
                AlsoFound(
                    **TPOT.model_dump(),
                    default_s=0.010,
                    winner_s=0.0104,
                    improvement=-0.04,
                    interval=(-0.07, -0.01),
                    worse_at_most=0.06,
                    held=True,
                )
            ],
            "costs": Costs(
                default=cost,
                winner=TokenCost(node_s=4.1, low_s=3.6, high_s=4.9),
                tokens_per_day=12_300_000,
                saved_node_h=7.2,
                saved_interval=(5.1, 9.3),
            ),
        }
    )
    return study(spec=spec, result=result if finished else None)


def tried() -> list[Trial]:
    """The search's trials with all three objectives, then the pairs."""
    found = trials()
    for at, beside in enumerate(BESIDE):
        also = {} if beside is None else {TPOT.name: beside[0], COST.name: beside[1]}
        found[at] = found[at].model_copy(update={"also_s": also})
    return found

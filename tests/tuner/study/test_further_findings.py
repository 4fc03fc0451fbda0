"""What a study tells beside its verdict: costs where somebody asks for them, and of both arms by their pairs."""

from typing import Any

import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import (
    StudyCreate,
)
from controlplane.contract.planning.measurement import CarriedLoad, Measurement
from tuner.capacity.carried_load import over_runs
from tuner.search.objective import Assessment, assess
from tuner.study.further_findings import cost_alone, costs_by_pairs
from tuner.study.remeasure import DEFAULT, INTERLEAVED, WINNER, Race

LIMITS = [Limit(metric="ttft", q=0.95, limit_s=0.5)]


def spec(**more: Any) -> StudyCreate:
    return StudyCreate.model_validate({"pool": "p", "objective": "max_load", "constraints": LIMITS, **more})


def carried(load: float) -> CarriedLoad:
    """Two requests of 50 tokens a second at the captured load."""
    return CarriedLoad(
        load=load, low=0.9 * load, high=1.1 * load, request_s=0.5 / load, tokens_per_request=50.0, replays=[]
    )


def raced(study: StudyCreate) -> Race:
    race = Race(4, INTERLEAVED, [], study.also, study.also_tolerance)
    for default, winner in ((2.0, 4.0), (2.1, 4.0), (1.9, 4.1), (2.0, 3.9)):
        for arm, load in ((DEFAULT, default), (WINNER, winner)):
            about: dict[str, Any] = {"requests": 9, "errors": 0, "duration_s": 1, "output_tokens_per_s": 1}
            found = Measurement(**about, quantiles={"ttft:0.95": 0.2}, carried=carried(load))
            race.add(arm, assess(found, study), found)
    return race


def costs(study: StudyCreate) -> Any:
    race = raced(study)
    return costs_by_pairs(study, race, over_runs(race.loads[WINNER], 1.0), over_runs(race.loads[DEFAULT], 1.0), 400.0)


PRICE = {"node_hour_price": 2.0, "currency": "EUR"}


@pytest.mark.parametrize(
    "more",
    [
        {"objective": "cost"},
        PRICE,
        {"objective": "ttft", "also": [{"objective": "cost"}]},
        {"objective": "ttft", "also": [{"objective": "max_load"}], **PRICE},
    ],
)
def test_costs_are_of_the_pairs_and_their_saving_has_an_interval(more: dict[str, Any]) -> None:
    found = costs(spec(**more))
    assert found is not None and found.winner is not None and found.saved_interval is not None
    assert (found.default.node_s, found.winner.node_s) == pytest.approx((5.0, 2.5), rel=0.01)
    low, high = found.saved_interval
    assert low < found.saved_node_h < high
    assert found.saved_node_h == pytest.approx(400 * 86_400 / 1000 * 2.5 / 3600, rel=0.02)


def test_who_asks_for_no_costs_is_told_none() -> None:
    assert costs(spec()) is None
    assert cost_alone(spec(), carried(2.0), 400.0) is None and cost_alone(spec(**PRICE), None, 400.0) is None
    alone = cost_alone(spec(**PRICE), carried(2.0), 400.0)
    assert alone is not None and alone.default.node_s == pytest.approx(5.0) and alone.winner is None


def test_where_no_load_was_sought_there_is_no_cost() -> None:
    study = spec(objective="ttft", constraints=[], **PRICE)
    race = Race(2, INTERLEAVED, [])
    for _ in range(2):
        for arm in (DEFAULT, WINNER):
            race.add(arm, Assessment(1.0, {}))
    assert costs_by_pairs(study, race, None, None, 400.0) is None


def test_where_neither_carries_any_load_tokens_have_no_price() -> None:
    """The figure that such a load is searched by, half of the least that was tried, is nobody's."""
    study, nothing = spec(objective="cost"), carried(1.0).model_copy(update={"load": 0.0, "low": 0.0, "high": 0.0})
    race = raced(study)
    assert costs_by_pairs(study, race, nothing, nothing, 400.0) is None and cost_alone(study, nothing, 400.0) is None
    assert costs_by_pairs(study, race, over_runs(race.loads[WINNER], 1.0), nothing, 400.0) is not None

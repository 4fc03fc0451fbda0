"""Each symptom of the catalogue, through the real store and evaluator, on its two series."""

from collections.abc import Iterator

import pytest

from controlplane.alerts.symptoms.symptom_catalogue import catalogue
from controlplane.contract.bodies.alerts import AlertState
from controlplane.db import Database
from tests.controlplane.alerts.symptoms.made_fleet import MadeFleet
from tests.controlplane.alerts.symptoms.series import SERIES

JUDGED = [name for name, symptom in catalogue().items() if symptom.limit is not None]


@pytest.fixture(scope="module", params=JUDGED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def well(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeFleet]:
    """A fleet in which all is well for as long as what is wrong lasts: both tests of a symptom look at it."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('symptom')}/tailwright.db")
    made, series = MadeFleet(database), SERIES[name]
    made.watch(name, series)
    made.serve(series, max(series.calm_s, series.lasts_s), wrong=False)
    yield made
    made.store.close()
    database.close()


def test_catalogue_and_series_cover_each_other() -> None:
    assert set(SERIES) == set(JUDGED)


@pytest.mark.slow
def test_it_does_not_fire_when_all_is_well(well: MadeFleet) -> None:
    assert well.alerts() == []


@pytest.mark.slow
def test_it_fires_when_it_must_and_is_resolved_when_it_is_over(well: MadeFleet, name: str) -> None:
    fleet, series = well, SERIES[name]
    began = fleet.now
    fleet.serve(series, series.lasts_s, wrong=True, until=AlertState.FIRING)
    (alert,) = fleet.alerts()
    assert alert.labels == {"kind": "symptom", "symptom": name, "pool": "main", **series.on}
    assert alert.state is AlertState.FIRING and alert.fired_at is not None
    low, high = series.fires_s
    assert low <= (alert.fired_at - began).total_seconds() <= high
    assert alert.evidence["error_rate"]["statement"] and catalogue()[name].title in alert.summary
    assert ("divergence" in alert.evidence) == (catalogue()[name].explain is not None)
    assert "not recorded" in alert.evidence.get("divergence", "not recorded")  # These nodes send no request log.
    fleet.serve(series, 2 * series.lasts_s, wrong=False, until=AlertState.RESOLVED)
    assert [one.state for one in fleet.alerts()] == [AlertState.RESOLVED]

"""What is measured of a front: all of it is the whole, what breaks a limit is offered in vain."""

import json

import numpy as np
import pytest

from benchmarks.tuner_measures.front_rivals import PLAYERS, Objectives, _path
from benchmarks.tuner_measures.measured_surface import measured

OF = Objectives(measured(0), ("tpot:0.95",))
THREE = Objectives(measured(0), ("tpot:0.95", "ttft:0.95"))
ALL = [json.loads(key) for key in OF.surface.fresh]


@pytest.mark.parametrize("of", [OF, THREE], ids=["two", "three"])
def test_all_configurations_cover_the_true_front_and_none_covers_nothing(of: Objectives) -> None:
    corner, whole = of.scale()
    broken = [knobs for knobs in ALL if of.truth(knobs) is None]
    found = _path(iter([[], broken, ALL]), of, corner, whole)
    assert [share for share, _ in found] == pytest.approx([0.0, 0.0, 1.0])
    assert [vain for _, vain in found] == pytest.approx([0.0, float(bool(broken)), len(broken) / len(ALL)])
    assert bool(broken) == bool(of.limits), "of this surface only a limit is broken"


def test_one_limit_has_become_an_objective() -> None:
    told = OF.measure(OF.surface.default, np.random.default_rng(0))
    assert OF.limits == ["ttft:0.95"] and told.violations.keys() == {"ttft:0.95"} and told.also.keys() == {"tpot:0.95"}


def test_both_limits_have_become_objectives() -> None:
    told = THREE.measure(THREE.surface.default, np.random.default_rng(0))
    assert THREE.limits == [] and not told.violations and told.also.keys() == {"tpot:0.95", "ttft:0.95"}


@pytest.mark.parametrize("of", [OF, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", sorted(set(PLAYERS) - {"Optuna GP"}))
def test_each_player_offers_what_it_has_measured_and_the_default_first(name: str, of: Objectives) -> None:
    fronts = PLAYERS[name](of, 1)
    first, second = next(fronts), next(fronts)
    assert all(knobs == of.surface.default for knobs in first) and len(second) <= 2

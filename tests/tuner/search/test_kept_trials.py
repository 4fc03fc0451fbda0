"""A study in Optuna's storage, as its dashboard reads it."""

import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from sqlalchemy import create_engine, inspect

from controlplane.contract.errors import BadSettings
from controlplane.contract.knobs import EngineConfig
from tuner.search import kept_trials
from tuner.search.kept_trials import KeptTrials, opened
from tuner.search.objective import Assessment, crashed
from tuner.search.search import Search
from tuner.search.space import Capabilities, build_space

DEFAULT = EngineConfig(max_num_batched_tokens=24).knobs()
SPACE = build_space({}, DEFAULT, Capabilities())


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'optuna.db'}"
        return
    found, schema = str(request.getfixturevalue("postgres_schema_url")), f"optuna_{secrets.token_hex(6)}"
    monkeypatch.setattr(kept_trials, "SCHEMA", schema)
    yield found
    engine = create_engine(found)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    engine.dispose()


def _search(url: str) -> Search:
    return Search(
        SPACE, DEFAULT, constraints=["itl:0.99"], kept=KeptTrials(url, "study 1 of pool p", SPACE, ["e2e:0.95"])
    )


@pytest.mark.slow
def test_each_trial_stands_there_once_by_its_values_whoever_goes_on(url: str) -> None:
    first = _search(url)
    for number in range(3):
        candidate = first.ask()
        assert candidate is not None
        first.tell(candidate, crashed() if number == 2 else Assessment(1.0 + number, {"itl:0.99": -0.25}))
    again = _search(url)
    again.catch_up(first.outcomes, {})
    candidate = again.ask()
    assert candidate is not None
    again.tell(candidate, Assessment(0.5, {"itl:0.99": 0.5}))
    (study,) = optuna.get_all_study_summaries(opened(url))
    assert study.study_name == "study 1 of pool p"
    kept = optuna.load_study(study_name=study.study_name, storage=opened(url))
    trials = kept.get_trials()
    assert [trial.user_attrs["trial"] for trial in trials] == [0, 1, 2, 3]
    assert trials[0].params["max_num_batched_tokens"] == 24 and kept.metric_names == ["e2e:0.95"]
    assert [trial.values for trial in trials] == [[1.0], [2.0], None, [0.5]], "seconds, the default's too"
    assert kept.best_value == 1.0, "the quickest broke a limit"
    assert [trial.state.name for trial in trials] == ["COMPLETE", "COMPLETE", "FAIL", "COMPLETE"]
    assert [bool(trial.constraints["itl:0.99"] > 0) for trial in trials] == [False, False, True, True]


@pytest.mark.slow
def test_several_objectives_are_optunas_so_that_its_dashboard_draws_their_front(url: str) -> None:
    kept = KeptTrials(url, "study 2 of pool p", SPACE, ["ttft:0.95", "goodput"])
    search = Search(SPACE, DEFAULT, constraints=["itl:0.99"], kept=kept, also=["goodput"])
    told: list[dict[str, float]] = [{"goodput": 1.0}, {"goodput": 2.0}, {"goodput": 0.5}, {"goodput": 2.0}, {}]
    for first, also in zip((1.0, 0.5, 2.0, 2.0, 0.1), told, strict=True):
        candidate = search.ask()
        assert candidate is not None
        search.tell(candidate, Assessment(first, {"itl:0.99": -0.25}, also))
    study = optuna.load_study(study_name="study 2 of pool p", storage=opened(url))
    assert study.metric_names == ["ttft:0.95", "goodput"]
    assert study.get_trials()[1].values == [0.5, 2.0]
    assert study.get_trials()[4].state is TrialState.FAIL, "not all was measured"
    assert sorted(trial.user_attrs["trial"] for trial in study.best_trials) == [0, 1, 2]


def test_the_file_is_its_owners_alone_and_postgresql_keeps_the_tables_apart(url: str, tmp_path: Path) -> None:
    opened(url)
    if url.startswith("sqlite"):
        assert stat.S_IMODE((tmp_path / "optuna.db").stat().st_mode) == 0o600
        return
    engine = create_engine(url)
    assert "trials" in inspect(engine).get_table_names(schema=kept_trials.SCHEMA)
    assert inspect(engine).get_table_names() == []
    engine.dispose()


@pytest.mark.parametrize(
    "wrong", ["mysql://host/db", "sqlite:////no/such/folder/optuna.db", "postgresql://u:secret@127.0.0.1:1/none"]
)
def test_what_cannot_be_opened_is_said_without_its_password(wrong: str) -> None:
    with pytest.raises(BadSettings, match=r"^storage: ") as refused:
        opened(wrong)
    assert "secret" not in refused.value.message


def test_a_storage_that_fails_costs_no_trial(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "optuna.db"
    search = _search(f"sqlite:///{file}")
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE trials")
    engine.dispose()
    candidate = search.ask()
    assert candidate is not None
    search.tell(candidate, Assessment(1.0, {}))
    assert len(search.outcomes) == 1 and "trial 0 is not in Optuna's storage" in caplog.text

"""A study's trials in Optuna's storage (a relational database), where its dashboard and its tools find them.

Guarantee: each trial stands there once, by its values, however many workers go on with the study. The storage is a
copy: what a study knows is with the service, so a storage that fails is logged and costs no trial.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from controlplane.contract.errors import BadSettings
from tuner.search.objective import Assessment, constraint_value
from tuner.search.space import Space

logger = logging.getLogger(__name__)
NUMBER = "trial"
"""The attribute of Optuna's trials that holds the study's number of it."""
VALUE = (
    "seconds, less is better; goodput and max_load: seconds a request, goodput_tokens: seconds a token, cost: node "
    "seconds for 1,000 tokens"
)
"""What a trial's values are, as the study's attribute `value` says."""
SCHEMA = "tailwright_optuna"
"""In PostgreSQL: Optuna's tables, and the version that its Alembic keeps, stand apart from the service's own."""
_POSTGRESQL = ("postgresql://", "postgresql+psycopg://")
_SQLITE = "sqlite:///"


def opened(url: str) -> optuna.storages.RDBStorage:
    """The storage at `sqlite:///FILE` (mode 600) or a PostgreSQL URL, made where there is none. Raises BadSettings."""
    try:
        if url.startswith(_SQLITE):
            os.close(os.open(url.removeprefix(_SQLITE), os.O_CREAT | os.O_RDWR, 0o600))
            return optuna.storages.RDBStorage(url, engine_kwargs={"poolclass": NullPool})
        place = next((url.removeprefix(begin) for begin in _POSTGRESQL if url.startswith(begin)), None)
        if place is None:
            raise BadSettings("storage: wants sqlite:///FILE or a postgresql:// URL", field="storage")
        place = f"postgresql+psycopg://{place}"
        engine = create_engine(place, poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
        own = {"options": f"-csearch_path={SCHEMA}"}
        return optuna.storages.RDBStorage(place, engine_kwargs={"poolclass": NullPool, "connect_args": own})
    except (OSError, SQLAlchemyError, ImportError, optuna.exceptions.OptunaError) as error:
        raise BadSettings(f"storage: cannot be opened ({type(error).__name__})", field="storage") from error


class KeptTrials:
    """One study there, by its name."""

    def __init__(self, url: str, name: str, space: Space, objectives: Sequence[str] = ()) -> None:
        """`objectives`: their names. Raises BadSettings where the storage cannot be opened."""
        self._space, self._also = space, list(objectives[1:])
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        directions = [optuna.study.StudyDirection.MINIMIZE] * (1 + len(self._also))
        self._study = optuna.create_study(
            storage=opened(url), study_name=name, load_if_exists=True, directions=directions
        )
        if objectives:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                self._study.set_metric_names(list(objectives))
        self._study.set_user_attr("value", VALUE)
        self._numbers = {trial.user_attrs.get(NUMBER) for trial in self._study.get_trials(deepcopy=False)}

    def keep(self, number: int, knobs: Mapping[str, Any], assessment: Assessment, limits: list[str]) -> None:
        """What came of a trial, failed unless it has each objective; one that an earlier worker has left there stays as
        it is."""
        if number in self._numbers:
            return
        measured = assessment.objective_s is not None
        values = [assessment.objective_s, *(assessment.also.get(name) for name in self._also)]
        told = [value for value in values if value is not None]
        is_whole = len(told) == len(values)
        try:
            self._study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.COMPLETE if is_whole else optuna.trial.TrialState.FAIL,
                    params=self._space.params(knobs),
                    distributions=self._space.distributions(),
                    values=told if is_whole else None,
                    user_attrs={NUMBER: number, "objective_s": assessment.objective_s, **assessment.also},
                    # What was not measured counts as held, unless nothing was.
                    constraints={
                        name: constraint_value(assessment.violations.get(name, 0.0 if measured else assessment.worst))
                        for name in limits
                    },
                )
            )
            self._numbers.add(number)
        except (SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            logger.warning("trial %d is not in Optuna's storage: %s", number, type(error).__name__)

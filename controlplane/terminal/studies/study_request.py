"""A study as it is asked for on a command line, and followed until it has ended."""

import secrets
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import httpx
import typer

from controlplane.client import Client
from controlplane.contract.bodies.slo import UseCase, limits_of
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState
from controlplane.terminal.bodies.contract_options import body_of
from controlplane.terminal.bodies.limit_option import parse_limit
from controlplane.terminal.output.printing import print_json
from controlplane.terminal.service_connection import fail, persistently

ENDED = {StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED}
OPTIONS = {"objective_q": "--objective", "constraints": "--constraint", "max_trials": "--trials"}
"""Of fields that have none of their name."""
IdempotencyKey = Annotated[
    str | None, typer.Option(help="Sent again with the same key, there is one study; default: one of its own.")
]


def parse_objective(text: str, option: str = "--objective") -> tuple[str, float]:
    """ "e2e:0.95" to its metric and quantile; the quantile may be left out, and `goodput` has none."""
    metric, _, q = text.partition(":")
    try:
        return metric.strip(), float(q or 0.95)
    except ValueError:
        fail(f"{option}: wants METRIC:QUANTILE such as e2e:0.95, or goodput, got {text!r}")


def study_wanted(
    pool: str,
    objective: str,
    constraint: list[str],
    trials: int,
    slo: UseCase | None = None,
    load: float = 1.0,
    fields: Mapping[str, Any] = MappingProxyType({}),
) -> StudyCreate:
    """`fields`: further ones, by name. Leaves with status 2 where the values are none that a study can have."""
    metric, q = parse_objective(objective)
    limits = limits_of(slo, [parse_limit(text, "--constraint") for text in constraint])
    told = {"pool": pool, "objective": metric, "objective_q": q, "constraints": limits}
    return body_of(StudyCreate, {**told, "max_trials": trials, "load": load, **fields}, OPTIONS)


def ask_for_study(client: Client, wanted: StudyCreate | Mapping[str, Any], key: str | None = None) -> Study:
    """Have one queued, once: where the answer is lost on its way, it is asked for again with the same key."""
    key = key or secrets.token_urlsafe(16)
    try:
        return client.create_study(wanted, key=key)
    except (httpx.ConnectError, httpx.ConnectTimeout):
        raise  # It was never sent.
    except httpx.TransportError:
        return persistently(lambda: client.create_study(wanted, key=key))


def follow_study(client: Client, number: int, *, as_json: bool) -> None:
    """Print a study's progress until it has ended, then its result. Leaves with status 1 where it has none."""
    shown = ""
    while True:
        study = persistently(lambda: client.study(number))
        if study.progress != shown:
            shown = study.progress
            typer.echo(f"{_headline(study)}, {study.trials_done} trials: {shown}", err=as_json)
        if study.state in ENDED:
            break
        time.sleep(1)
    tell_study(study, as_json=as_json)
    if study.state is not StudyState.FINISHED:
        raise typer.Exit(1)


def tell_study(study: Study, *, as_json: bool) -> None:
    """In a line: its result, what went wrong, or how far it is."""
    if as_json:
        print_json(study)
    elif study.result is not None:
        typer.echo(study.result.summary)
    else:
        typer.echo(": ".join(filter(None, (_headline(study), study.error or study.progress))))


def _headline(study: Study) -> str:
    return f"study {study.id} {study.state}"

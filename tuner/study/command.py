"""`tailwright tune`: a tuner worker, or (with --pool) ask for a study and wait for what comes of it."""

import logging
import signal
import socket
import threading
import time
from os import getpid
from typing import Annotated

import typer
from pydantic import ValidationError

from controlplane.client import Client
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState
from controlplane.terminal import extras
from controlplane.terminal.service_connection import (
    FAILURES,
    SERVER,
    Server,
    Token,
    TokenFile,
    connect,
    explain,
    explain_values,
    fail,
    persistently,
)
from controlplane.terminal.subcommand import subcommand

ENDED = {StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED}


def parse_limit(text: str) -> Limit:
    """ "itl:0.99<=0.2" to a Limit in seconds."""
    try:
        left, limit = text.split("<=")
        metric, q = left.split(":")
        return Limit(metric=metric.strip(), q=float(q), limit_s=float(limit))
    except ValidationError as error:
        fail(f"--constraint: {text!r}: {explain_values(error)}")
    except ValueError:
        fail(f"--constraint: wants METRIC:QUANTILE<=SECONDS such as itl:0.99<=0.2, got {text!r}")


def parse_objective(text: str) -> tuple[str, float]:
    """ "e2e:0.95" to its metric and quantile; the quantile may be left out."""
    metric, _, q = text.partition(":")
    try:
        return metric.strip(), float(q or 0.95)
    except ValueError:
        fail(f"--objective: wants METRIC:QUANTILE such as e2e:0.95, got {text!r}")


app = subcommand()


@app.command()
def tune(
    pool: Annotated[str | None, typer.Option(help="Ask for a study of this pool; without, be a worker.")] = None,
    objective: Annotated[str, typer.Option(help="METRIC:QUANTILE to minimise.")] = "e2e:0.95",
    constraint: Annotated[list[str], typer.Option(help="METRIC:QUANTILE<=SECONDS; repeatable.")] = [],  # noqa: B006
    trials: Annotated[int, typer.Option(help="Most trials.", min=3)] = 12,
    name: Annotated[str | None, typer.Option(help="Name of the worker.")] = None,
    sampler: Annotated[str | None, typer.Option(help="gp or tpe; without: gp where torch is installed.")] = None,
    server: Server = SERVER,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Be a tuner worker that claims studies, or ask for one with --pool and print its result."""
    try:
        if pool is None:
            extras.need("tune", "tuner")
            with connect(server, token, token_file) as client:
                work(client, name or f"tuner-{socket.gethostname()}-{getpid()}", sampler)
            return
        metric, q = parse_objective(objective)
        limits = [parse_limit(text) for text in constraint]
        wanted = StudyCreate(pool=pool, objective=metric, objective_q=q, constraints=limits, max_trials=trials)
        with connect(server, token, token_file) as client:
            study = follow(client, client.create_study(wanted).id)
        typer.echo(study.result.summary if study.result else f"study {study.id} {study.state}: {study.error}")
        raise typer.Exit(0 if study.state is StudyState.FINISHED else 1)
    except FAILURES as error:
        fail(explain(error), 1)


def work(client: Client, name: str, sampler: str | None) -> None:
    """Claim and run studies until SIGTERM or SIGINT."""
    from tuner.study.worker import Worker

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Worker(client, name, sampler=sampler, stop=stop).loop()


def follow(client: Client, number: int) -> Study:
    """Print a study's progress until it has ended."""
    shown = ""
    while True:
        study = persistently(lambda: client.study(number))
        if study.progress != shown:
            shown = study.progress
            typer.echo(f"study {number} {study.state}, {study.trials_done} trials: {shown}")
        if study.state in ENDED:
            return study
        time.sleep(1)

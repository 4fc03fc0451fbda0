"""`tailwright tune`: a tuner worker, or (with --pool) ask for a study and wait for what comes of it."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from os import getpid
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controlplane.client import Client
from controlplane.contract.bodies.slo import UseCase
from controlplane.contract.engine_address import Network, networks_of
from controlplane.contract.errors import BadSettings
from controlplane.terminal import extras
from controlplane.terminal.bodies.contract_options import flag_of, said_of
from controlplane.terminal.clear_database import clear_database
from controlplane.terminal.output.printing import Json
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.setting_values import words_of
from controlplane.terminal.studies.study_options import with_fields_of_tune
from controlplane.terminal.studies.study_request import ask_for_study, follow_study, study_wanted
from controlplane.terminal.subcommand import subcommand

if TYPE_CHECKING:
    from tuner.evaluation.evaluation_command import Evaluations

app = subcommand()
OBJECTIVE, TRIALS = "e2e:0.95", 12
EVALUATIONS = "TAILWRIGHT_TUNER_EVALUATIONS"
"""The variable that says what --evaluation does, as a JSON object."""


@app.command()
@calls_service()
@with_fields_of_tune
def tune(
    client: Client,
    pool: Annotated[str | None, typer.Option(help="Ask for a study of this pool; without, be a worker.")] = None,
    objective: Annotated[
        str,
        typer.Option(
            help="METRIC:QUANTILE to minimise, or what keeps the limits: goodput, goodput_tokens, max_load, cost."
        ),
    ] = OBJECTIVE,
    constraint: Annotated[list[str], typer.Option(help="METRIC:QUANTILE<=SECONDS; repeatable.")] = [],  # noqa: B006
    slo: Annotated[
        UseCase | None, typer.Option(help="Limits of a use case; --constraint goes before the one that it names.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Most trials.", min=3)] = TRIALS,
    load: Annotated[float, typer.Option(help="Times the rate at which the traffic came.", min=0.1, max=20)] = 1.0,
    *,
    fields: Mapping[str, Any],
    name: Annotated[str | None, typer.Option(help="Name of the worker.")] = None,
    engine_allow: Annotated[
        str,
        typer.Option(
            help="Networks that a worker may call engines in, with commas between; default: any but a cloud's."
        ),
    ] = "",
    storage: Annotated[
        str | None,
        typer.Option(
            envvar="TAILWRIGHT_TUNER_STORAGE",
            help="Where a worker keeps trials for optuna-dashboard: sqlite:///FILE or a postgresql:// URL, whose "
            "password belongs into the variable.",
        ),
    ] = None,
    insecure_stores: Annotated[
        bool,
        typer.Option("--insecure-stores", envvar="TAILWRIGHT_INSECURE_STORES", help="That database without TLS."),
    ] = False,
    evaluation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=COMMAND]",
            allow_from_autoenv=False,
            help="A command that scores what an engine at $TAILWRIGHT_EVALUATION_URL says, for studies that name it; "
            f"repeatable. With --pool: the name alone.  [env var: {EVALUATIONS}, JSON]",
        ),
    ] = None,
    evaluation_timeout_s: Annotated[
        float,
        typer.Option(
            envvar="TAILWRIGHT_TUNER_EVALUATION_TIMEOUT_S", help="Seconds that one evaluation may take.", min=1
        ),
    ] = 1800,
    as_json: Json = False,
) -> None:
    """Be a tuner worker that claims studies, or ask for one with --pool and print its result."""
    if pool is None:
        own = {"objective": objective != OBJECTIVE, "constraint": constraint, "slo": slo}
        own |= {"trials": trials != TRIALS, "load": load != 1.0}
        if of_a_study := [*(name for name, is_said in own.items() if is_said), *fields]:
            fail(f"{flag_of(of_a_study[0])}: is of a study, and a worker takes any; say --pool, too")
        extras.need("tune", "tuner")
        with extras.loading():
            from tuner.evaluation.evaluation_command import evaluations_of
        try:
            networks = networks_of(words_of(engine_allow) if engine_allow else ())
            evaluations = evaluations_of(evaluation or (), os.environ.get(EVALUATIONS, ""), evaluation_timeout_s)
        except BadSettings as error:
            fail(error.message)
        if storage and not insecure_stores and (problem := clear_database(storage, "storage")):
            fail(problem)
        work(client, name or f"tuner-{socket.gethostname()}-{getpid()}", networks, storage, evaluations)
        return
    if evaluation:
        if len(evaluation) > 1 or "=" in evaluation[0]:
            fail("--evaluation: with --pool, wants the one name that a worker was started with")
        fields = {**fields, "evaluation": evaluation[0]}
    wanted = said_of(study_wanted(pool, objective, constraint, trials, slo, load, fields))
    follow_study(client, ask_for_study(client, wanted).id, as_json=as_json)


def work(
    client: Client, name: str, networks: Sequence[Network], storage: str | None, evaluations: "Evaluations"
) -> None:
    """Claim and run studies until SIGTERM or SIGINT."""
    with extras.loading():
        from tuner.study.worker import Worker

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Worker(client, name, stop=stop, networks=networks, storage=storage or None, evaluations=evaluations).loop()

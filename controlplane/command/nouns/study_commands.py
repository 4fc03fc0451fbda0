"""`tailwright studies`: searches for a better configuration, asked for, followed and ended."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from controlplane.client import Client
from controlplane.contract.bodies.slo import UseCase
from controlplane.contract.bodies.studies import FrontMember, Objective, Study, StudyCreate, Trial, TrialState
from controlplane.contract.duration_text import duration_text
from controlplane.contract.planning.carried_text import carried_text
from controlplane.contract.planning.objective_text import called, front_text, result_in_short, value_text
from controlplane.contract.share_text import share_text
from controlplane.terminal.bodies.contract_options import said_of
from controlplane.terminal.document_file import read_document
from controlplane.terminal.output.printing import (
    Columns,
    Json,
    labels_text,
    moment_text,
    print_items,
    print_json,
    show_list,
    show_record,
)
from controlplane.terminal.output.whole_file import write_whole
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.studies.study_options import with_study_fields
from controlplane.terminal.studies.study_request import (
    IdempotencyKey,
    ask_for_study,
    follow_study,
    study_wanted,
    tell_study,
)
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Tuning studies: searches for a better configuration.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(help="Its id, as the list shows it.")]

COLUMNS: Columns[Study] = {
    "id": lambda study: str(study.id),
    "pool": lambda study: study.spec.pool,
    "objective": lambda study: study.spec.aim,
    "traffic": lambda study: study.spec.workload or "captured",
    "state": lambda study: study.state.value,
    "trials": lambda study: f"{study.trials_done}/{study.spec.max_trials}",
    "made": lambda study: moment_text(study.created_at),
    "by": lambda study: study.created_by,
    "result": lambda study: result_in_short(study) or "-",
}


def _state(trial: Trial) -> str:
    if trial.step is not None:
        of = f", rollout {trial.step.rollout_id}" if trial.step.rollout_id is not None else ""
        return f"{trial.step.title}: {trial.step.outcome or 'under way'}{of}"
    if trial.state is TrialState.RUNNING:
        return f"running on {trial.node}"
    if trial.state is TrialState.WAITING:
        return f"lost on {trial.node}, waits for a worker"
    held = trial.error or trial.ended_early or ("holds the limits" if trial.feasible else "breaks a limit")
    return "; ".join(filter(None, (held, trial.measurement.unsettled if trial.measurement else "")))


def _objective(trial: Trial) -> str:
    if trial.objective_s is None:
        return "-"
    carried = trial.measurement.carried if trial.measurement is not None else None
    return duration_text(trial.objective_s) + (f", {carried_text(carried)}" if carried else "")


def _drafts(trial: Trial) -> str:
    accepted = None if trial.measurement is None else trial.measurement.acceptance
    return "-" if accepted is None else share_text(accepted, 1)


def trial_columns(also: Sequence[Objective] = ()) -> Columns[Trial]:
    """also: further objectives, a column each."""

    def words(one: Objective) -> Callable[[Trial], str]:
        return lambda trial: value_text(one, trial.also_s.get(one.name))

    return {
        "trial": lambda trial: str(trial.number),
        "kind": lambda trial: trial.kind,
        "objective": _objective,
        **{called(one): words(one) for one in also},
        "drafts accepted": _drafts,
        "state": _state,
        "node": lambda trial: trial.node or "-",
        "knobs": lambda trial: labels_text({name: str(value) for name, value in trial.knobs.items()}),
    }


def front_columns(spec: StudyCreate) -> Columns[FrontMember]:
    """A column an objective, each value with its interval."""

    def words(one: Objective) -> Callable[[FrontMember], str]:
        return lambda member: front_text(one, member)

    return {
        "trial": lambda member: str(member.number),
        **{called(one): words(one) for one in spec.objectives},
        "keeps limits": lambda member: share_text(member.keeps_limits),
        "knobs": lambda member: labels_text({name: str(value) for name, value in member.knobs.items()}),
    }


@app.command("list")
@calls_service()
def listing(
    client: Client,
    pool: Annotated[str | None, typer.Option(help="Only this pool's.")] = None,
    as_json: Json = False,
) -> None:
    """Every study, newest first."""
    found = [study for study in client.studies() if pool in (None, study.spec.pool)]
    show_list(found, COLUMNS, as_json=as_json, what="study")


@app.command("show")
@calls_service()
def show(client: Client, number: Number, as_json: Json = False) -> None:
    """One study, its result, and its trials."""
    study = client.study(number)
    front = [] if study.result is None or as_json else study.result.front
    if study.result is not None and front:  # They stand in a table of their own.
        study = study.model_copy(update={"result": study.result.model_copy(update={"front": []})})
    show_record(study, as_json=as_json, leave_out=("workload_summary",))
    tried = [] if as_json else client.trials(number)
    if tried:
        typer.echo("")
        print_items(tried, trial_columns(study.spec.also))
    if front:
        typer.echo("\nWhat is left to choose among:")
        print_items(front, front_columns(study.spec))


@app.command("trials")
@calls_service()
def trials(client: Client, number: Number, as_json: Json = False) -> None:
    """What a study has tried, in order."""
    columns = trial_columns(() if as_json else client.study(number).spec.also)
    show_list(client.trials(number), columns, as_json=as_json, what="trial")


@app.command("start")
@calls_service()
@with_study_fields
def start(
    client: Client,
    pool: Annotated[str | None, typer.Option(help="Pool whose traffic is replayed.")] = None,
    objective: Annotated[
        str,
        typer.Option(
            help="METRIC:QUANTILE to minimise, or what keeps the limits: goodput, goodput_tokens, max_load, cost."
        ),
    ] = "e2e:0.95",
    constraint: Annotated[list[str], typer.Option(help="METRIC:QUANTILE<=SECONDS; repeatable.")] = [],  # noqa: B006
    slo: Annotated[
        UseCase | None, typer.Option(help="Limits of a use case; --constraint goes before the one that it names.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Most trials.", min=3)] = 12,
    load: Annotated[float, typer.Option(help="Times the rate at which the traffic came.", min=0.1, max=20)] = 1.0,
    *,
    fields: Mapping[str, Any],
    file: Annotated[
        Path | None,
        typer.Option(help="Instead: a TOML (.toml) or JSON file of all that a study can be told; - is stdin."),
    ] = None,
    idempotency_key: IdempotencyKey = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end; status 0 only with a result.")] = True,
    as_json: Json = False,
) -> None:
    """Ask for a study; a tuner worker (`tailwright tune`, or the one of `tailwright up`) takes it."""
    if (pool is None) == (file is None):
        fail("say which pool: --pool POOL, or --file FILE")
    if file is not None and fields:
        fail(f"--{next(iter(fields)).replace('_', '-')}: --file says all of a study; write it there")
    wanted = (
        read_document(file)
        if file is not None
        else said_of(study_wanted(str(pool), objective, constraint, trials, slo, load, fields))
    )
    study = ask_for_study(client, wanted, idempotency_key)
    if wait:
        follow_study(client, study.id, as_json=as_json)
    else:
        tell_study(study, as_json=as_json)


@app.command("watch")
@calls_service()
def watch(client: Client, number: Number, as_json: Json = False) -> None:
    """Follow a study until it has ended; status 0 only with a result."""
    follow_study(client, number, as_json=as_json)


@app.command("cancel")
@calls_service()
def cancel(client: Client, number: Number, as_json: Json = False) -> None:
    """End a study; what it has tried stays."""
    study = client.cancel_study(number)
    if as_json:
        print_json(study)
    else:
        typer.echo(f"study {study.id} {study.state}")


@app.command("report")
@calls_service()
def report(
    client: Client,
    number: Number,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; default: study-NUMBER.html; - is stdout.")
    ] = None,
) -> None:
    """Save a study's report: one HTML file with all its findings, which opens without the service."""
    document = client.study_report(number)
    file = out or Path(f"study-{number}.html")
    is_piped = str(file) == "-"
    try:
        write_whole([document], None if is_piped else file)
    except OSError as error:
        fail(f"--out: {error}", 1)
    if not is_piped:
        typer.echo(f"study {number}: its report is in {file}")

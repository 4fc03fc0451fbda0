"""`tailwright rollout`: configurations to production, from a shell or a pipeline."""

import time
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutCreate, RolloutPhase
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.output.printing import Columns, Json, moment_text, print_json, show_list, show_record
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail, persistently
from controlplane.terminal.subcommand import subcommand

app = subcommand(
    help="Bring a configuration to production: canary, verdict, promotion or rollback.", no_args_is_help=True
)


def production_revision(nodes: list[NodeView], pool: str) -> int | None:
    """What the pool's serving nodes should run; a trial node's configuration is an experiment."""
    serving = (node for node in nodes if node.pool == pool and node.role is NodeRole.SERVING)
    return next((node.desired_revision for node in serving if node.desired_revision), None)


def revision_with(client: Client, pool: str, assignments: list[str], note: str) -> int:
    """A revision of these knobs laid over what the pool runs."""
    base = production_revision(client.nodes(), pool)
    wanted = RevisionCreate(knobs=parse_assignments(assignments), base=base, note=note)
    return client.create_config(wanted).number


COLUMNS: Columns[Rollout] = {
    "id": lambda rollout: str(rollout.id),
    "pool": lambda rollout: rollout.spec.pool,
    "revision": lambda rollout: str(rollout.spec.revision),
    "instead of": lambda rollout: str(rollout.previous_revision or "-"),
    "phase": lambda rollout: rollout.phase.value,
    "verdict": lambda rollout: rollout.verdict.value if rollout.verdict else "-",
    "made": lambda rollout: moment_text(rollout.created_at),
    "by": lambda rollout: rollout.created_by,
    "news": lambda rollout: rollout.message,
}


def line_of(rollout: Rollout) -> str:
    verdict = f", verdict {rollout.verdict}" if rollout.verdict else ""
    return f"rollout {rollout.id}: {rollout.phase}{verdict}: {rollout.message}"


def tell(rollout: Rollout, as_json: bool) -> None:
    if as_json:
        print_json(rollout)
    else:
        typer.echo(line_of(rollout))


def follow(client: Client, number: int, as_json: bool) -> None:
    """Print each change of a rollout until it has ended. Leaves with status 1 when it was not promoted."""
    shown = ""
    while True:
        rollout = persistently(lambda: client.rollout(number))
        if line_of(rollout) != shown:
            shown = line_of(rollout)
            typer.echo(shown, err=as_json)
        if rollout.phase in ENDED:
            break
        time.sleep(1)
    if as_json:
        print_json(rollout)
    if rollout.phase is not RolloutPhase.PROMOTED:
        raise typer.Exit(1)


Number = Annotated[int, typer.Argument(help="Its id, as the list shows it.")]


@app.command("list")
@calls_service()
def listing(
    client: Client,
    pool: Annotated[str | None, typer.Option(help="Only this pool's.")] = None,
    as_json: Json = False,
) -> None:
    """Every rollout, newest first."""
    found = [rollout for rollout in client.rollouts() if pool in (None, rollout.spec.pool)]
    show_list(found, COLUMNS, as_json=as_json, what="rollout")


@app.command("show")
@calls_service()
def show(client: Client, number: Number, as_json: Json = False) -> None:
    """One rollout: what was asked for, what it is judged by, where it is. The evidence stands in --json."""
    show_record(client.rollout(number), as_json=as_json, leave_out=("evidence",))


@app.command("watch")
@calls_service()
def watch(client: Client, number: Number, as_json: Json = False) -> None:
    """Follow a rollout until it has ended; status 0 only when promoted."""
    follow(client, number, as_json)


@app.command("start")
@calls_service()
def start(
    client: Client,
    number: Annotated[int | None, typer.Argument(help="A proposed rollout to begin, instead of a new one.")] = None,
    pool: Annotated[str, typer.Option(help="Pool to change.")] = "",
    set_: Annotated[
        list[str],
        typer.Option("--set", envvar="TAILWRIGHT_ROLLOUT_START_SET", help="knob=value; may be given several times."),
    ] = [],  # noqa: B006 - typer needs a list default
    revision: Annotated[int | None, typer.Option(help="An existing revision instead of --set.")] = None,
    takes_back: Annotated[int | None, typer.Option(help="The revision in production that --revision undoes.")] = None,
    metric: Annotated[
        list[str],
        typer.Option(help="What to judge by, several times for several. Default: ttft, tpot, e2e, itl."),
    ] = [],  # noqa: B006 - typer needs a list default
    reason: Annotated[str, typer.Option(help="Why; stands in the ledger.")] = "",
    emergency: Annotated[bool, typer.Option(help="To the whole pool at once, unjudged; needs scope admin.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait for the end; status 0 only when promoted.")] = True,
    as_json: Json = False,
) -> None:
    """Start a rollout of --set knobs laid over what the pool runs, of a given revision, or one that was proposed."""
    asked = {"--pool": pool, "--set": set_, "--revision": revision, "--takes-back": takes_back, "--metric": metric}
    others = [name for name, value in {**asked, "--reason": reason, "--emergency": emergency}.items() if value]
    if number is not None and others:
        fail(f"rollout {number} says itself what it is: leave out {', '.join(others)}")
    if number is None and not pool:
        fail("--pool: which pool is to be changed?")
    if number is None and bool(set_) == (revision is not None):
        fail("give either --set knob=value or --revision")
    if number is None:
        if revision is None:
            revision = revision_with(client, pool, set_, reason)
        wanted = RolloutCreate(pool=pool, revision=revision, reason=reason, emergency=emergency, takes_back=takes_back)
        if metric:
            wanted = wanted.model_copy(update={"metrics": metric})
    rollout = client.create_rollout(wanted) if number is None else client.start_rollout(number)
    if wait:
        follow(client, rollout.id, as_json)
    else:
        tell(rollout, as_json)


@app.command("approve")
@calls_service()
def approve(client: Client, number: Number, as_json: Json = False) -> None:
    """Begin an emergency rollout that another admin has proposed."""
    tell(client.approve_rollout(number), as_json)


@app.command("cancel")
@calls_service()
def cancel(client: Client, number: Number, as_json: Json = False) -> None:
    """End a rollout: the whole previous revision is put back where it had begun."""
    tell(client.cancel_rollout(number), as_json)

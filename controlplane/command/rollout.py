"""`tailwright rollout`: configurations to production, from a shell or a pipeline."""

import time
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutCreate, RolloutPhase
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.service_connection import (
    FAILURES,
    SERVER,
    Server,
    Token,
    TokenFile,
    connect,
    explain,
    fail,
    persistently,
)
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


def say(rollout: Rollout) -> None:
    verdict = f", verdict {rollout.verdict}" if rollout.verdict else ""
    typer.echo(f"rollout {rollout.id}: {rollout.phase}{verdict}: {rollout.message}")


def follow(client: Client, number: int) -> Rollout:
    """Print each change of a rollout until it has ended."""
    shown = ""
    while True:
        rollout = persistently(lambda: client.rollout(number))
        line = f"{rollout.phase}{rollout.message}"
        if line != shown:
            say(rollout)
            shown = line
        if rollout.phase in ENDED:
            return rollout
        time.sleep(1)


@app.command("start")
def start(
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
    server: Server = SERVER,
    token: Token = None,
    token_file: TokenFile = None,
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
    try:
        with connect(server, token, token_file) as client:
            if number is None:
                if revision is None:
                    revision = revision_with(client, pool, set_, reason)
                wanted = RolloutCreate(
                    pool=pool, revision=revision, reason=reason, emergency=emergency, takes_back=takes_back
                )
                if metric:
                    wanted = wanted.model_copy(update={"metrics": metric})
            rollout = client.create_rollout(wanted) if number is None else client.start_rollout(number)
            if not wait:
                say(rollout)
            elif follow(client, rollout.id).phase is not RolloutPhase.PROMOTED:
                raise typer.Exit(1)
    except FAILURES as error:
        fail(explain(error), 1)


@app.command("list")
def listing(server: Server = SERVER, token: Token = None, token_file: TokenFile = None) -> None:
    """Every rollout, newest first."""
    try:
        with connect(server, token, token_file) as client:
            for rollout in client.rollouts():
                say(rollout)
    except FAILURES as error:
        fail(explain(error), 1)


@app.command("approve")
def approve(number: int, server: Server = SERVER, token: Token = None, token_file: TokenFile = None) -> None:
    """Begin an emergency rollout that another admin has proposed."""
    try:
        with connect(server, token, token_file) as client:
            say(client.approve_rollout(number))
    except FAILURES as error:
        fail(explain(error), 1)


@app.command("cancel")
def cancel(number: int, server: Server = SERVER, token: Token = None, token_file: TokenFile = None) -> None:
    """End a rollout: the whole previous revision is put back where it had begun."""
    try:
        with connect(server, token, token_file) as client:
            say(client.cancel_rollout(number))
    except FAILURES as error:
        fail(explain(error), 1)

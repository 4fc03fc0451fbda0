"""`tailwright rollout`: configurations to production, from a shell or a pipeline."""

import time
from collections.abc import Mapping
from itertools import zip_longest
from typing import Annotated, Any, NamedTuple

import typer

from controlplane.client import Client
from controlplane.command.pools.production import production_revision
from controlplane.command.pools.rehearsal import rehearsal_lines, rehearse
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import (
    ENDED,
    Rollout,
    RolloutAction,
    RolloutCreate,
    RolloutForecast,
    RolloutPhase,
)
from controlplane.contract.bodies.slo import UseCase
from controlplane.contract.changes.blast_radius import BlastLimit
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.bodies.contract_options import body_of, flag_of, said_of
from controlplane.terminal.bodies.rollout_options import with_rollout_fields
from controlplane.terminal.output.printing import Columns, Json, moment_text, print_json, show_list, show_record
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail, persistently
from controlplane.terminal.subcommand import subcommand

app = subcommand(
    help="Bring a configuration to production: canary, verdict, promotion or rollback.", no_args_is_help=True
)


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
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")]
IfMatch = Annotated[
    str | None, typer.Option(help="Only if it has not moved since: its id and step in quotes, as in '\"12-3\"'.")
]


class Asked(NamedTuple):
    """How a change is asked for."""

    dry_run: bool
    if_match: str | None
    as_json: bool


def tell_forecast(forecast: RolloutForecast, as_json: bool) -> None:
    if as_json:
        print_json(forecast)
        return
    typer.echo(f"nothing was done; it would be {forecast.rollout.phase}: {forecast.rollout.message}")
    for says, wave in zip_longest(forecast.says, forecast.waves):
        typer.echo(f"{says}: {', '.join(wave.named)}" if wave is not None else says)
    for says in () if forecast.blast_radius is None else forecast.blast_radius.says:
        typer.echo(f"reaches {says}")
    for finding in forecast.findings:
        typer.echo(finding.sentence)
    if forecast.more_findings:
        typer.echo(f"... and {forecast.more_findings} more of its nodes' findings")


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


@app.command("reach")
@calls_service()
def reach(
    client: Client,
    number: Annotated[int | None, typer.Argument(help="A rollout that is there, instead of one to come.")] = None,
    pool: Annotated[str, typer.Option(help="Pool that would be changed.")] = "",
    revision: Annotated[int | None, typer.Option(help="The revision that it would be given.")] = None,
    emergency: Annotated[bool, typer.Option(help="To the whole pool at once.")] = False,
    as_json: Json = False,
) -> None:
    """Whom a rollout can hurt, before it starts: nodes, traffic, tenants, seconds without service."""
    if number is not None and (pool or revision is not None or emergency):
        fail(f"rollout {number} says itself what it is: leave out --pool, --revision and --emergency")
    if number is not None:
        radius = client.blast_radius(number)
    elif pool and revision is not None:
        radius = client.preview_blast_radius(RolloutCreate(pool=pool, revision=revision, emergency=emergency))
    else:
        fail("give a rollout's number, or --pool and --revision")
    if as_json:
        print_json(radius)
    else:
        typer.echo("\n".join(radius.says))


@app.command("start")
@calls_service()
@with_rollout_fields
def start(
    client: Client,
    number: Annotated[int | None, typer.Argument(help="A proposed rollout to begin, instead of a new one.")] = None,
    pool: Annotated[str, typer.Option(help="Pool to change.")] = "",
    set_: Annotated[
        list[str],
        typer.Option("--set", envvar="TAILWRIGHT_ROLLOUT_START_SET", help="knob=value; may be given several times."),
    ] = [],  # noqa: B006 - typer needs a list default
    revision: Annotated[int | None, typer.Option(help="An existing revision instead of --set.")] = None,
    slo: Annotated[UseCase | None, typer.Option(help="Limits of a use case, which must not be broken either.")] = None,
    *,
    fields: Mapping[str, Any],
    max_nodes: Annotated[int | None, typer.Option(min=1, help="Refused where it reaches more nodes in all.")] = None,
    max_traffic_share: Annotated[
        float | None, typer.Option(min=0, max=1, help="Refused where it reaches more of the fleet's requests.")
    ] = None,
    max_unavailable_s: Annotated[
        float | None, typer.Option(min=0, help="Refused where requests to one node would wait longer, or nobody knows.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Sent again with the same key, nothing is done twice.")
    ] = None,
    dry_run: DryRun = False,
    wait: Annotated[bool, typer.Option(help="Wait for the end; status 0 only when promoted.")] = True,
    as_json: Json = False,
) -> None:
    """Start a rollout of --set knobs laid over what the pool runs, of a given revision, or one that was proposed."""
    limits = {"nodes": max_nodes, "traffic_share": max_traffic_share, "unavailable_s": max_unavailable_s}
    most = BlastLimit(**limits) if any(limit is not None for limit in limits.values()) else None
    if number is not None:
        said = {"--pool": pool, "--set": set_, "--revision": revision, "--idempotency-key": idempotency_key}
        said |= {"--slo": slo, **{flag_of(name): True for name in fields}}
        said |= {flag_of(f"max_{name}"): limit is not None for name, limit in limits.items()}
        if others := [flag for flag, value in said.items() if value]:
            fail(f"rollout {number} says itself what it is: leave out {', '.join(others)}")
        if dry_run:
            tell_forecast(client.forecast_change(number, RolloutAction.START), as_json)
            return
        rollout = client.start_rollout(number)
    else:
        if not pool:
            fail("--pool: which pool is to be changed?")
        if bool(set_) == (revision is not None):
            fail("give either --set knob=value or --revision")
        own = {"pool": pool, "revision": revision or 0, "profile": slo, "max_blast": most}
        # Checked before a revision is made of the knobs.
        wanted = body_of(RolloutCreate, {**fields, **{name: value for name, value in own.items() if value is not None}})
        if revision is None:
            wanted.revision = revision_with(client, pool, set_, wanted.reason)
        if dry_run:
            tell_forecast(client.forecast_rollout(said_of(wanted)), as_json)
            return
        rollout = client.create_rollout(said_of(wanted), key=idempotency_key)
    begun = number is not None or rollout.spec.start
    if wait and begun:
        follow(client, rollout.id, as_json)
    else:
        tell(rollout, as_json)


@app.command("rehearse")
@calls_service()
def rehearse_rollback(
    client: Client,
    pool: Annotated[str, typer.Option(help="Pool whose rollback is proved.")],
    set_: Annotated[
        list[str],
        typer.Option("--set", envvar="TAILWRIGHT_ROLLOUT_REHEARSE_SET", help="knob=value; may be given several times."),
    ],
    limit_s: Annotated[float, typer.Option(min=1, help="Seconds that each way may take.")] = 600,
    as_json: Json = False,
) -> None:
    """Prove a rollback: one node is given --set and taken back at once; status 0 when every knob is as it was."""
    found = rehearse(client, pool, parse_assignments(set_), limit_s)
    if as_json:
        print_json(found)
    else:
        typer.echo("\n".join(rehearsal_lines(found)))
    if not found.proved:
        raise typer.Exit(1)


def change(client: Client, number: int, what: RolloutAction, asked: Asked, *, reason: str | None = None) -> None:
    if asked.dry_run:
        tell_forecast(client.forecast_change(number, what), asked.as_json)
    else:
        tell(client.change_rollout(number, what, reason=reason, if_match=asked.if_match), asked.as_json)


@app.command("approve")
@calls_service()
def approve(
    client: Client, number: Number, dry_run: DryRun = False, if_match: IfMatch = None, as_json: Json = False
) -> None:
    """Begin a rollout that another has proposed and that waits for an approval."""
    change(client, number, RolloutAction.APPROVE, Asked(dry_run, if_match, as_json))


@app.command("pause")
@calls_service()
def pause(
    client: Client,
    number: Number,
    reason: Annotated[str, typer.Option(help="Why, for people.")] = "",
    dry_run: DryRun = False,
    if_match: IfMatch = None,
    as_json: Json = False,
) -> None:
    """Tell no more nodes until it is resumed; those that were told are watched on, and harm takes them back."""
    change(client, number, RolloutAction.PAUSE, Asked(dry_run, if_match, as_json), reason=reason or None)


@app.command("resume")
@calls_service()
def resume(
    client: Client, number: Number, dry_run: DryRun = False, if_match: IfMatch = None, as_json: Json = False
) -> None:
    """Go on where it was paused or held; what was undecided is judged on."""
    change(client, number, RolloutAction.RESUME, Asked(dry_run, if_match, as_json))


@app.command("abort")
@calls_service()
def abort(
    client: Client, number: Number, dry_run: DryRun = False, if_match: IfMatch = None, as_json: Json = False
) -> None:
    """Roll back what is under way, in whatever phase it is."""
    change(client, number, RolloutAction.ABORT, Asked(dry_run, if_match, as_json))


@app.command("retry")
@calls_service()
def retry(
    client: Client, number: Number, dry_run: DryRun = False, if_match: IfMatch = None, as_json: Json = False
) -> None:
    """Make another rollout of the same, of one that went back, failed or was cancelled."""
    change(client, number, RolloutAction.RETRY, Asked(dry_run, if_match, as_json))


@app.command("revert")
@calls_service()
def revert(
    client: Client, number: Number, dry_run: DryRun = False, if_match: IfMatch = None, as_json: Json = False
) -> None:
    """Take back what was promoted: a judged rollout of the whole revision before it."""
    change(client, number, RolloutAction.REVERT, Asked(dry_run, if_match, as_json))


@app.command("cancel")
@calls_service()
def cancel(
    client: Client, number: Number, dry_run: DryRun = False, if_match: IfMatch = None, as_json: Json = False
) -> None:
    """End a rollout: the whole previous revision is put back where it had begun."""
    change(client, number, RolloutAction.CANCEL, Asked(dry_run, if_match, as_json))

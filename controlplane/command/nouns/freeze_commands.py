"""`tailwright freezes`: times in which no rollout begins or tells more nodes."""

from datetime import datetime
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.on_call.rollout_policies import Freeze, FreezeCreate
from controlplane.terminal.output.printing import Columns, Json, moment_text, print_json, show_done, show_list
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Freeze windows: times in which no rollout begins or tells more nodes.", no_args_is_help=True)

COLUMNS: Columns[Freeze] = {
    "id": lambda freeze: str(freeze.id),
    "pool": lambda freeze: freeze.pool or "every pool",
    "from": lambda freeze: moment_text(freeze.starts_at),
    "to": lambda freeze: moment_text(freeze.ends_at),
    "reason": lambda freeze: freeze.reason,
    "by": lambda freeze: freeze.created_by,
}


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every freeze window, newest first."""
    show_list(client.freezes(), COLUMNS, as_json=as_json, what="freeze window")


@app.command("create")
@calls_service()
def create(
    client: Client,
    start: Annotated[
        datetime, typer.Argument(help="Since when, as in 2026-12-24T18:00:00+00:00.", parser=datetime.fromisoformat)
    ],
    end: Annotated[datetime, typer.Argument(help="Until when.", parser=datetime.fromisoformat)],
    reason: Annotated[str, typer.Option(help="Why; it is shown to whoever waits.")],
    pool: Annotated[str | None, typer.Option(help="Only this pool; else every pool.")] = None,
    as_json: Json = False,
) -> None:
    """Freeze a pool, or all of them, for a time. An emergency rollout passes, and the ledger says so."""
    wanted = FreezeCreate(pool=pool, starts_at=start.astimezone(), ends_at=end.astimezone(), reason=reason)
    made = client.create_freeze(wanted)
    if as_json:
        print_json(made)
    else:
        typer.echo(f"freeze {made.id}: {made.pool or 'every pool'} until {moment_text(made.ends_at)}: {made.reason}")


@app.command("lift")
@calls_service()
def lift(
    client: Client, number: Annotated[int, typer.Argument(help="Its id, as the list shows it.")], as_json: Json = False
) -> None:
    """Lift a freeze window before its end; needs scope admin."""
    client.lift_freeze(number)
    show_done(f"freeze {number} is lifted", as_json=as_json)

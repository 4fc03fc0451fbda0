"""`tailwright rollout-policies`: who may roll out to a pool, how much at once and at what hours."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.duration_text import duration_text
from controlplane.contract.on_call.rollout_policies import RolloutPolicy
from controlplane.contract.share_text import share_text
from controlplane.terminal.document_file import DocumentFile, read_document
from controlplane.terminal.output.printing import Columns, Json, moment_text, print_json, show_done, show_list
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Policies of pools: who may roll out, how much at once, at what hours.", no_args_is_help=True)


def _waves_text(policy: RolloutPolicy) -> str:
    """Such as "region eu-1,us-2, 600 s apart, resumed"; empty: by no label."""
    said = [" ".join([policy.wave_by, ",".join(policy.wave_order)]).strip()]
    said += [f"{duration_text(policy.wave_soak_s)} apart"] if policy.wave_soak_s else []
    return ", ".join([*said, *(["resumed"] if policy.wave_pause else [])])


COLUMNS: Columns[RolloutPolicy] = {
    "id": lambda policy: str(policy.id),
    "pool": lambda policy: policy.pool,
    "propose": lambda policy: ", ".join(policy.proposers) or "scope operate",
    "approve": lambda policy: (", ".join(policy.approvers) or "another admin") if policy.needs_approval else "-",
    "at once": lambda policy: "-" if policy.max_step_share is None else share_text(policy.max_step_share),
    "canary": lambda policy: policy.canary_selector or "any",
    "waves by": lambda policy: _waves_text(policy) or "-",
    "hours": lambda policy: (
        "any"
        if policy.hours is None
        else f"{', '.join(policy.hours.days)} {policy.hours.opens}-{policy.hours.closes} {policy.hours.zone}"
    ),
    "undecided": lambda policy: policy.on_inconclusive or "-",
    "since": lambda policy: moment_text(policy.updated_at),
    "by": lambda policy: policy.updated_by,
}


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every pool's policy, newest first."""
    show_list(client.rollout_policies(), COLUMNS, as_json=as_json, what="policy")


@app.command("set")
@calls_service()
def set_(client: Client, file: DocumentFile, as_json: Json = False) -> None:
    """Make a file the policy of the pool that it names, in place of the one there; needs scope admin."""
    made = client.set_rollout_policy(read_document(file))
    if as_json:
        print_json(made)
    else:
        typer.echo(f"policy {made.id} of pool {made.pool} holds from the next rollout on")


@app.command("remove")
@calls_service()
def remove(
    client: Client, number: Annotated[int, typer.Argument(help="Its id, as the list shows it.")], as_json: Json = False
) -> None:
    """Remove a pool's policy: scopes alone hold there; needs scope admin."""
    client.remove_rollout_policy(number)
    show_done(f"policy {number} is removed", as_json=as_json)

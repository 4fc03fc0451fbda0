"""`tailwright nodes`: the fleet's nodes, what each runs, and what can be done with one."""

import contextlib
import io
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.client.clocks import node_clocks
from controlplane.client.host import host_figures
from controlplane.command.node_text import changes_text, knobs_text, memory_text, state_text
from controlplane.command.nouns.matched_labels import selector_of
from controlplane.contract.bodies.nodes import NodeRole, NodeView, TrialConfig
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.output.printing import (
    Columns,
    Json,
    labels_text,
    moment_text,
    print_json,
    record_lines,
    show_done,
    show_list,
)
from controlplane.terminal.service_command import OPTIONS, calls_service, chosen
from controlplane.terminal.service_connection import FAILURES, reaching
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="The fleet's nodes, and what each truly runs.", no_args_is_help=True)

COMPLETION_TIMEOUT_S = 1.0


def node_names(context: typer.Context, incomplete: str) -> list[str]:
    """For the shell's completion: none where no service says them at once."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(typer.Exit, *FAILURES):
        choice = chosen(context, {name: context.params.get(name) for name in OPTIONS})
        with reaching(choice, timeout_s=COMPLETION_TIMEOUT_S) as client:
            return [node.node for node in client.nodes() if node.node.startswith(incomplete)]
    return []


Node = Annotated[str, typer.Argument(help="The node's name.", autocompletion=node_names)]

COLUMNS: Columns[NodeView] = {
    "node": lambda node: node.node,
    "pool": lambda node: node.pool,
    "role": lambda node: node.role.value,
    "backend": lambda node: node.backend,
    "state": lambda node: state_text(node),
    "revision": lambda node: str(node.effective.revision) if node.effective else "-",
    "wanted": lambda node: str(node.desired_revision or "-"),
    "labels": lambda node: labels_text(node.labels) or "-",
    "last seen": lambda node: moment_text(node.last_seen),
}


@app.command("list")
@calls_service()
def listing(
    client: Client,
    pool: Annotated[str | None, typer.Option(help="Only this pool's.")] = None,
    role: Annotated[NodeRole | None, typer.Option(help="Only of this role.")] = None,
    selector: Annotated[
        str, typer.Option(help="Only with these labels, as in 'region=eu-1, gpu in (H100, H200), !spot'.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Every node, by name: its state, the revision that it runs, and the one that it should."""
    found = client.nodes(pool=pool, role=role, selector=str(selector_of("--selector", selector)))
    show_list(found, COLUMNS, as_json=as_json, what="node")


@app.command("show")
@calls_service()
def show(client: Client, node: Node, as_json: Json = False) -> None:
    """One node: its knobs as the engine reports them, its memory, what a change costs, its clock and host."""
    found = client.node(node)
    if as_json:
        print_json(found)
        return
    clock = node_clocks(client, node).get(node)
    told = found.model_dump(exclude={"effective"})
    told |= {"runs": knobs_text(found), "memory": memory_text(found), "changes": changes_text(found)}
    told["clock"] = "" if clock is None else " ".join(filter(None, (clock.words, clock.hint)))
    told["host"] = {one.metric.short: one.words for one in host_figures(client, node) if one.value is not None}
    for line in record_lines(told):
        typer.echo(line)


@app.command("set")
@calls_service()
def set_trial(
    client: Client,
    node: Node,
    knobs: Annotated[list[str], typer.Argument(help="knob=value; the other knobs take their defaults.")],
    as_json: Json = False,
) -> None:
    """Give a trial node a configuration of its own. Serving nodes are changed by `tailwright rollout`."""
    _tell(client.set_trial_config(node, TrialConfig(knobs=parse_assignments(knobs))), "is given it", as_json)


@app.command("reset-cache")
@calls_service()
def reset_cache(client: Client, node: Node, as_json: Json = False) -> None:
    """Have a trial node empty its prefix cache."""
    _tell(client.reset_cache(node), "is told to empty its prefix cache", as_json)


@app.command("release")
@calls_service()
def release(client: Client, node: Node, as_json: Json = False) -> None:
    """Let another agent take a node's name within ten minutes; needs an admin's token."""
    released = client.release_node(node)
    _tell(released, f"may be taken by another agent until {moment_text(released.released_until)}", as_json)


@app.command("remove")
@calls_service()
def remove(client: Client, node: Node, as_json: Json = False) -> None:
    """Forget a node and end its tokens; its engine keeps running as it is. Needs an admin's token."""
    client.remove_node(node)
    show_done(f"{node} is removed", as_json=as_json)


def _tell(node: NodeView, done: str, as_json: bool) -> None:
    if as_json:
        print_json(node)
    else:
        typer.echo(f"{node.node} {done}")

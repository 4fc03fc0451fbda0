"""Rules of a file tried over the past: one rule, or a backtest of a whole file of `[[alert_rule]]` tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from controlplane.client import Client
from controlplane.contract.bodies.alerts import DryRun, WouldHaveFired
from controlplane.contract.duration_text import duration_text
from controlplane.terminal.output.printing import Columns, labels_text, moment_text, print_items, print_table
from controlplane.terminal.service_connection import fail

RULES = ("alert_rule", "rule")
"""What a file calls its tables of rules."""
TIMES: Columns[WouldHaveFired] = {
    "fired": lambda one: moment_text(one.fired_at),
    "resolved": lambda one: moment_text(one.resolved_at, "lasts"),
    "for": lambda one: duration_text(one.lasted_s),
    "where": lambda one: labels_text({name: value for name, value in one.labels.items() if name != "kind"}),
    "summary": lambda one: one.summary,
}


def rules_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rules of a file: its `[[alert_rule]]` tables, else the file is one rule."""
    named = [name for name in RULES if name in document]
    if not named:
        return [dict(document)]
    for name in named:
        if not isinstance(document[name], list) or not document[name]:
            fail(f"file: {name} wants one table or more, each as [[{name}]]")
    return [dict(rule) for name in named for rule in document[name]]


def tried(client: Client, rule: Mapping[str, Any], window_s: float, end: str | None) -> DryRun:
    return client.dry_run_rule({"rule": rule, "window_s": window_s, "end": end})


def show_trial(rule: Mapping[str, Any], found: DryRun) -> None:
    """One rule: each time that it would have fired, then the sum."""
    if found.times:
        print_items(found.times, TIMES)
    if found.fired > len(found.times):
        typer.echo(f"... and {found.fired - len(found.times)} times more")
    span = f"{moment_text(found.start)} to {moment_text(found.judged_to)}"
    pools = ", ".join(found.pools) or "no pool"
    name = rule.get("name", "the rule")
    typer.echo(f"{name}: would have fired {times_text(found.fired)}, {found.a_week:g} a week ({span}, {pools})")
    for note in found.notes:
        typer.echo(f"note: {note}")


def times_text(count: int) -> str:
    return f"{count} time" if count == 1 else f"{count} times"


def show_backtest(rules: Sequence[Mapping[str, Any]], found: Sequence[DryRun]) -> None:
    """A file of rules: a line each."""
    print_table(
        ["rule", "fired", "a week", "firing", "longest", "last"],
        [
            [
                str(rule.get("name", "-")),
                str(one.fired),
                f"{one.a_week:g}",
                duration_text(one.firing_s) if one.fired else "-",
                duration_text(max(time.lasted_s for time in one.times)) if one.times else "-",
                moment_text(one.times[-1].fired_at if one.times else None),
            ]
            for rule, one in zip(rules, found, strict=True)
        ],
    )
    for note in dict.fromkeys(note for one in found for note in one.notes):
        typer.echo(f"note: {note}")

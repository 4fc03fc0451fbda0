"""What moved a quantile, for a terminal: by stage, by place, since when and after what; it prints."""

import typer

from controlplane.contract.bodies.explanation import Bounded
from controlplane.contract.duration_text import duration_text
from controlplane.contract.on_call.attribution import Attribution, HowMoved, PlaceOfShift, StageOfShift
from controlplane.contract.on_call.metric_text import metric_name
from controlplane.contract.share_text import share_text
from controlplane.terminal.output.printing import Columns, moment_text, print_items

MOST_PLACES = 5
STAGES: Columns[StageOfShift] = {
    "stage": lambda one: one.stage,
    "before": lambda one: duration_text(one.before_s),
    "during": lambda one: duration_text(one.during_s),
    "share": lambda one: share_text(one.share),
    "grown by (95 %)": lambda one: _between(one.grown_s),
}
PLACES: Columns[PlaceOfShift] = {
    "requests": lambda one: f"{one.label}={one.value}",
    "what changed": lambda one: _change(one),
    "share": lambda one: share_text(one.share),
    "moved it by (95 %)": lambda one: _between(one.moved_s),
    "of all": lambda one: f"{share_text(one.before)} to {share_text(one.during)}",
}


def print_moved(moved: Attribution) -> None:
    """The largest places first, at most five; all of it stands in --json."""
    before, during = duration_text(moved.before_s), duration_text(moved.during_s)
    typer.echo(f"\n{metric_name(moved.metric)} p{100 * moved.q:.4g} went from {before} to {during}")
    if moved.effect is not None:
        low, high = moved.effect.low, moved.effect.high
        typer.echo(f"- {moved.effect.value:.3g} times as long ({low:.3g} to {high:.3g}, 95 % at any look)")
    if moved.since is not None:
        since = moved.since
        typer.echo(f"- since {moment_text(since.at)} ({since.low:%H:%M:%S} to {since.high:%H:%M:%S}, 95 %)")
    if moved.after is not None:
        when = "before" if moved.after.lag_s >= 0 else "after"
        typer.echo(f"- {abs(moved.after.lag_s):.0f} s {when} it: {moved.after.message} ({moved.after.subject})")
    if moved.stages:
        typer.echo("")
        print_items(moved.stages, STAGES)
    if moved.places:
        typer.echo("")
        print_items(moved.places[:MOST_PLACES], PLACES)


def _change(one: PlaceOfShift) -> str:
    if one.how is HowMoved.MIX:
        return "more of them"
    if one.own_factor is None or one.others_factor is None:
        return "took longer"
    return f"took longer: {one.own_factor:.3g} times, others {one.others_factor:.3g}"


def _between(moved: Bounded) -> str:
    return f"{_signed(moved.low)} to {_signed(moved.high)}"


def _signed(seconds: float) -> str:
    return ("-" if seconds < 0 else "+") + duration_text(abs(seconds))

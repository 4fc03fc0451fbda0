"""What moved the quantile, for a post-mortem, as Markdown: by stage, by place, since when and after what. Pure."""

from collections.abc import Iterator

from controlplane.contract.duration_text import duration_text
from controlplane.contract.on_call.attribution import Attribution, HowMoved, PlaceOfShift
from controlplane.contract.on_call.metric_text import metric_name
from controlplane.contract.share_text import share_text
from controlplane.incidents.markdown import plain, table

MOST_PLACES = 5


def moved_quantile(moved: Attribution | None) -> Iterator[str]:
    """Nothing where it is not known."""
    if moved is None:
        return
    yield from ("", f"### What moved {metric_name(moved.metric)} p{100 * moved.q:.4g}", "")
    yield from _since(moved)
    if moved.stages:
        yield from ("", f"Of the requests at and above p{100 * (moved.tail_q or moved.q):.3g}:", "")
        rows = (
            (
                plain(one.stage),
                duration_text(one.before_s),
                duration_text(one.during_s),
                share_text(one.share),
                f"{_signed(one.grown_s.low)} to {_signed(one.grown_s.high)}",
            )
            for one in moved.stages
        )
        yield from table(("Stage", "Before", "During", "Share of the shift", "Grown by (95 %)"), rows)
    if moved.places:
        yield ""
        head = ("Requests", "What changed", "Share of the shift", "Moved it by (95 %)", "Of all requests")
        yield from table(head, (_place(one) for one in moved.places[:MOST_PLACES]))


def _since(moved: Attribution) -> Iterator[str]:
    if moved.effect is not None:
        low, high = moved.effect.low, moved.effect.high
        yield f"- {moved.effect.value:.3g} times as long ({low:.3g} to {high:.3g}, 95 % at any look)."
    if moved.since is not None:
        yield f"- Since {moved.since.at:%H:%M:%S} ({moved.since.low:%H:%M:%S} to {moved.since.high:%H:%M:%S}, 95 %)."
    if moved.after is not None:
        lag = f"{abs(moved.after.lag_s):.0f} s {'before' if moved.after.lag_s >= 0 else 'after'} it"
        yield f"- {lag}: {plain(moved.after.message)} ({plain(moved.after.subject)})."


def _place(one: PlaceOfShift) -> tuple[str, ...]:
    named = "**" if one.named else ""
    return (
        f"{named}{plain(one.label)} {plain(one.value)}{named}",
        "more of them" if one.how is HowMoved.MIX else "took longer",
        share_text(one.share),
        f"{_signed(one.moved_s.low)} to {_signed(one.moved_s.high)}",
        f"{share_text(one.before)} to {share_text(one.during)}",
    )


def _signed(seconds: float) -> str:
    return ("-" if seconds < 0 else "+") + duration_text(abs(seconds))

"""What the benchmark prints: Markdown tables on standard output, progress on standard error."""

import sys
import time
from collections.abc import Sequence

from benchmarks.engine_measures.stats import Summary

_BEGAN = time.monotonic()


def progress(text: str) -> None:
    print(f"[{time.monotonic() - _BEGAN:6.0f} s] {text}", file=sys.stderr, flush=True)


def heading(text: str) -> None:
    print(f"\n### {text}\n", flush=True)


def note(text: str) -> None:
    print(text, flush=True)


def skipped(what: str, why: str) -> None:
    """A line in the report where a figure is missing; `why` keeps its first line only."""
    reason = why.strip().splitlines()[0] if why.strip() else "no reason given"
    print(f"- **{what}: not measured**: {reason}", flush=True)
    progress(f"SKIPPED {what}: {why}")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n| {' | '.join(head)} |")
    print("|" + "---|" * len(head))
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(flush=True)


def figure(value: float) -> str:
    """Three digits, no exponent."""
    if value != value:
        return "-"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def spread(summary: Summary) -> str:
    """median (lower to upper quartile; min)."""
    return (
        f"{figure(summary.median)} ({figure(summary.low_quartile)} to {figure(summary.high_quartile)}; "
        f"min {figure(summary.minimum)})"
    )


def ratio(summary: Summary) -> str:
    """median x (lower to upper quartile)."""
    return f"**{summary.median:.2f} x** ({summary.low_quartile:.2f} to {summary.high_quartile:.2f})"

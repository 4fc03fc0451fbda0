"""How traffic is told of in lines: pure functions of what `Traffic.progress` counts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.contract.duration_text import duration_text

LONGEST_REASON = 160


def progress_line(progress: Mapping[str, Any]) -> str:
    """What was sent so far, and the newest seconds' time to first token as the client sees it."""
    parts = [f"{progress['sent']} sent", f"{progress['in_flight']} in flight", f"{progress['finished']} answered"]
    failed = f"{progress['failed']} failed"
    if progress["failed"] and progress.get("last_error"):
        failed += f" (last: {one_line(progress['last_error'])})"
    parts.append(failed)
    if progress["refused"]:
        parts.append(f"{progress['refused']} not sent, too many in flight")
    return ", ".join(parts) + f"; {_first_token(progress)}"


def summary_lines(progress: Mapping[str, Any], took_s: float, most_in_flight: int, errors: Iterable[str]) -> list[str]:
    """What became of all requests; `progress` with quantiles over the whole run, `errors`: one for each failed one."""
    unanswered = progress["sent"] - progress["finished"] - progress["failed"]
    became = f"{progress['finished']} answered, {progress['failed']} failed"
    if unanswered:
        became += f", {unanswered} broken off at the end"
    lines = [f"Sent {progress['sent']} requests in {took_s:.0f} s: {became}; {_first_token(progress)}."]
    if progress["refused"]:
        lines.append(
            f"{progress['refused']} more were due and not sent, because {most_in_flight} were in flight: the engines "
            "are slower than --rate asks for (or raise --max-in-flight)."
        )
    reasons = Counter(one_line(error) for error in errors if error)
    return lines + [f"{times} failed: {reason}" for reason, times in reasons.most_common(5)]


def one_line(text: str) -> str:
    """A server's words, safe to print on a terminal, and short."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return shown if len(shown) <= LONGEST_REASON else shown[: LONGEST_REASON - 3] + "..."


def _first_token(progress: Mapping[str, Any]) -> str:
    if "ttft_p50_s" not in progress:
        return "no first token yet"
    return f"ttft p50 {duration_text(progress['ttft_p50_s'])}, p99 {duration_text(progress['ttft_p99_s'])}"

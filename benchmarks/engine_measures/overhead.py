"""What the engine's own timing and event log cost."""

from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.engine_measures.session import MAIN, Session
from benchmarks.engine_measures.stats import summarize

_LONG, _SHORT = 96, 56


def measure(session: Session) -> None:
    heading("Cost of the engine's own timing")
    note(
        "CPU time of the stepping thread a step (us), decoding with observation (step events, gaps, their log) on and "
        "off in alternate blocks of eight steps of the same batch; difference of the medians. Inside: time within the "
        "observing calls themselves, the timing clock's own cost taken off, as a share of a step. The few clock "
        "reads in the step itself (under 1 us) are in both columns."
    )
    assert session.ours is not None
    pieces = session.texts.code("overhead")
    new_tokens = _LONG if session.is_small else _SHORT
    rows = []
    for batch in (1, 16):
        on: list[float] = []
        off: list[float] = []
        inside: list[float] = []
        for _ in range(session.rounds):
            found = session.ours.ask("overhead", name=MAIN, prompts=pieces.take_many(batch, 64), new_tokens=new_tokens)
            on += found["on_s"]
            off += found["off_s"]
            inside.append(found["direct_s"])
        plain = summarize(off)
        difference = summarize(on).median - plain.median
        rows.append(
            [
                str(batch),
                f"{1e6 * plain.median:.0f} ({1e6 * plain.low_quartile:.0f} to {1e6 * plain.high_quartile:.0f})",
                f"{1e6 * difference:+.1f} ({100 * difference / plain.median:+.2f} %)",
                f"{1e6 * summarize(inside).median:.1f} (**{100 * summarize(inside).median / plain.median:.2f} %**)",
            ]
        )
    progress("overhead done")
    table(["batch", "step, off", "on minus off", "inside the observing calls"], rows)

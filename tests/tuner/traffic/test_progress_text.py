"""What traffic says of itself: every count once, and a server's words never as they come."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tuner.traffic.progress_text import LONGEST_REASON, one_line, progress_line, summary_lines

PROGRESS = {"sent": 40, "finished": 30, "failed": 3, "refused": 0, "in_flight": 7}


def test_a_line_says_what_was_sent_and_how_soon_it_was_answered() -> None:
    assert progress_line(PROGRESS) == "40 sent, 7 in flight, 30 answered, 3 failed; no first token yet"
    told = progress_line(
        {**PROGRESS, "refused": 5, "last_error": "HTTP 503: busy", "ttft_p50_s": 0.0351, "ttft_p99_s": 1.2}
    )
    assert told == (
        "40 sent, 7 in flight, 30 answered, 3 failed (last: HTTP 503: busy), 5 not sent, too many in flight; "
        "ttft p50 35.1 ms, p99 1.20 s"
    )


def test_the_summary_counts_what_was_broken_off_and_names_the_reasons() -> None:
    lines = summary_lines({**PROGRESS, "refused": 2}, 12.3, 64, ["a", "b", "a", ""])
    assert lines[0] == ("Sent 40 requests in 12 s: 30 answered, 3 failed, 7 broken off at the end; no first token yet.")
    assert lines[1].startswith("2 more were due and not sent, because 64 were in flight")
    assert lines[2:] == ["2 failed: a", "1 failed: b"]


@given(st.text(), st.integers(0, 9), st.integers(0, 9))
def test_each_line_is_one_line(error: str, failed: int, refused: int) -> None:
    progress: dict[str, Any] = {**PROGRESS, "failed": failed, "refused": refused, "last_error": error}
    for line in (progress_line(progress), *summary_lines(progress, 1.0, 64, [error])):
        assert line.isprintable()
    assert len(one_line(error)) <= LONGEST_REASON

"""How long the story says it took to a finding and to a gain: only what has happened."""

import pytest

from agents.demo.breakage import ALERT_NAMES
from agents.demo.improvement import WINNER_PROMOTED
from agents.demo.run import reached
from agents.demo.view import Line


@pytest.mark.parametrize(
    ("finding", "gain", "says"),
    [
        (None, None, ""),
        (94.4, None, "the first finding (an alert that names its cause) after 94 s."),
        (94.4, 321.0, "after 94 s, the first verified gain (promoted by its canary) after 321 s."),
    ],
)
def test_what_was_reached_is_told_with_its_time(finding: float | None, gain: float | None, says: str) -> None:
    lines = [Line("one", ended_s=3.0), Line(ALERT_NAMES, ended_s=finding), Line(WINNER_PROMOTED, ended_s=gain)]
    assert reached(lines).endswith(says) and bool(reached(lines)) is bool(says)

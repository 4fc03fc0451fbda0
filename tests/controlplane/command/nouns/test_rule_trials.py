"""A trial's words: one time is one time, and a rule that never fired has no lengths."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.command.nouns.rule_trials import show_backtest, show_trial
from controlplane.contract.bodies.alerts import DryRun, WouldHaveFired

END = datetime(2030, 1, 8, tzinfo=UTC)


def found(fired: int) -> DryRun:
    one = WouldHaveFired(labels={"pool": "chat"}, started_at=END, fired_at=END, lasted_s=90, summary="slow")
    return DryRun(
        start=END - timedelta(days=7),
        end=END,
        judged_to=END,
        width_s=60,
        pools=["chat"],
        fired=fired,
        a_week=fired,
        firing_s=90 * fired,
        times=[one] * fired,
    )


@pytest.mark.parametrize(("fired", "words"), [(0, "0 times"), (1, "1 time"), (2, "2 times")])
def test_one_rule_is_summed_up(fired: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_trial({"name": "slow"}, found(fired))
    assert f"slow: would have fired {words}, {fired} a week (" in capsys.readouterr().out


def test_a_file_of_rules_is_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    show_backtest([{"name": "slow"}, {"name": "quiet"}], [found(1), found(0)])
    _, slow, quiet = (line.split() for line in capsys.readouterr().out.splitlines())
    assert slow[:7] == ["slow", "1", "1", "90.0", "s", "90.0", "s"]
    assert quiet == ["quiet", "0", "0", "-", "-", "-"]

"""The evaluator's hook: called in the transaction in which an alert fires or is told anew."""

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session

from controlplane.app.remedies.carry_out import carry_out
from controlplane.app.remedies.cause import likeliest
from controlplane.app.remedies.choose import choose
from controlplane.app.remedies.standing import Standings
from controlplane.contract.bodies.alerts import Alert, AlertRule
from controlplane.contract.bodies.remedies import RemedyState, RemedyStep


class Remedies:
    """Chooses and starts remedies. Agents are told by whoever calls `take_news` after the transaction has ended."""

    def __init__(self) -> None:
        self._news = False

    def __call__(self, session: Session, alert: Alert, rule: AlertRule, now: datetime) -> Sequence[RemedyStep]:
        """The new steps of this alert, the first to be done first; also for a rule that has no remedy of its own."""
        cause = likeliest(alert)
        seen = Standings(session, now).of(alert, rule.remedy, cause)
        steps = carry_out(session, alert, rule, seen, choose(alert, rule, cause, seen, now), now)
        if any(step.state is RemedyState.STARTED and step.rollout_id is not None for step in steps):
            self._news = True
        return steps

    @staticmethod
    def has_new(seen: Standings, alert: Alert, rule: AlertRule, now: datetime) -> bool:
        """Whether a call would choose anything."""
        cause = likeliest(alert)
        return bool(choose(alert, rule, cause, seen.of(alert, rule.remedy, cause), now))

    def take_news(self) -> bool:
        """Whether a rollout has been begun since the last call: nodes have something new to run."""
        news, self._news = self._news, False
        return news

"""Careful tuning in production: how far a step goes, when it may begin, and what came of it."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from controlplane.contract.bodies.rollouts import Verdict
from controlplane.contract.on_call.rollout_policies import Hours

LASTS_S = 86400.0
"""Seconds that a study in production takes at most where it does not say."""


class OnlineMode(BaseModel):
    """A study that has no trial node: it moves one live knob of the pool a step at a time, each step a rollout with its
    canary and its judge. What is better stays; everything else goes back.

    At most `max_trials` steps within `max_duration_s` (a day where nothing is said). No step begins in a freeze window,
    outside the pool's hours, or while the pool has an open incident, which takes back the step under way.
    """

    step: float = Field(
        default=1.25,
        gt=1,
        le=4,
        description="by how many times a number rises or falls in a step at most, though by one at least; of `choices` "
        "a step goes to the next",
    )
    max_taken_back: int = Field(
        default=3, ge=1, le=100, description="the study ends after so many steps that were worse, undecided or stopped"
    )
    hours: Hours | None = Field(
        default=None, description="when a step may begin, within the pool's own hours; null: whenever those allow it"
    )


class StepOutcome(StrEnum):
    """What came of a step."""

    BETTER = "better"  # Promoted: the next steps go from here.
    SAFE = "safe"  # Not worse, nor shown to be better: it went back.
    WORSE = "worse"  # It went back; that value, and all beyond it, is not tried again.
    INCONCLUSIVE = "inconclusive"  # Not decided in time: it went back, and may be tried beside other values.
    STOPPED = "stopped"  # By a node that failed, an incident or a person: it went back, and counts as worse does.


LEFT = frozenset({StepOutcome.WORSE, StepOutcome.STOPPED})
"""What takes its value, and all beyond it, from those that may be tried."""
TAKEN_BACK = LEFT | {StepOutcome.INCONCLUSIVE}
"""What counts towards `max_taken_back`."""


class OnlineStep(BaseModel):
    """One step: a trial of a study in production."""

    knob: str = Field(description="the knob that it moved")
    before: Any = Field(description="its value before")
    value: Any = Field(description="the value that was tried")
    rollout_id: int | None = Field(default=None, description="the rollout that it was; null: none could be made of it")
    outcome: StepOutcome | None = Field(default=None, description="what came of it; null: it is under way")
    verdict: Verdict | None = Field(default=None, description="what the judge has said of its canary")
    control_s: float | None = Field(
        default=None, description="the objective's quantile of the control while they were compared, seconds"
    )
    ratio: float | None = Field(
        default=None, description="the objective's quantile, canary over control; null: it was judged by counts"
    )
    interval: tuple[float | None, float | None] | None = Field(
        default=None, description="the ratio's interval at the judge's error rate; null: it was judged by counts"
    )
    message: str = Field(default="", description="how its rollout ended, in a sentence")

    @property
    def title(self) -> str:
        """What it moves: "max_num_seqs from 4 to 8"."""
        return f"{self.knob} from {self.before} to {self.value}"

"""What is done about an alert: a remedy fits its cause, and what was chosen, and why, is kept with the alert.

A change of configuration is taken back, load wants admission limits or capacity, a disturbed host is drained, and
what is left is a matter of tuning: a study.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field


class RemedyAction(StrEnum):
    """What fits a cause: take the change back, let in less, drain the node, or look for a better configuration."""

    ROLL_BACK = "roll_back"  # A judged rollout of the revision that served before the one that is the cause.
    ADMISSION = "admission"  # Let in less, or add capacity: for people.
    DRAIN = "drain"  # Take the node out of the traffic until its host is quiet: for people.
    STUDY = "study"  # Look for a better configuration.


class RemedyState(StrEnum):
    """What became of a remedy."""

    OFFERED = "offered"  # A person has to start it, or do it.
    STARTED = "started"  # The service has started it.
    DECLINED = "declined"  # It would have been started; `why` says what forbids it, `until` for how long.


class RemedyPolicy(StrEnum):
    """Whether the service takes a bad revision back by itself."""

    PROPOSE = "propose"  # The rollout is made and waits for a person to start it.
    AUTOMATIC = "automatic"  # It starts at once.


HOW = "; to take it back: "
"""In `why`, before the command that starts what is offered."""


class RemedyStep(BaseModel):
    """One remedy chosen for an alert. `cause` is the kind of cause it answers, as in `Diagnosis.causes`."""

    time: datetime = Field(description="when it was chosen")
    action: RemedyAction = Field(description="what fits the cause")
    state: RemedyState = Field(description="what became of it")
    cause: str = Field(description="the kind of cause it answers, as in `diagnosis.causes`")
    why: str = Field(description="why it was chosen, or declined")
    until: datetime | None = Field(
        default=None, description="declined: when it may be tried again, where that is known"
    )
    revision: int | None = Field(default=None, description="rolled back: the revision that is taken back")
    back_to: int | None = Field(default=None, description="rolled back: the revision that served before it")
    node: str | None = Field(default=None, description="drained: the node whose host is disturbed")
    rollout_id: int | None = Field(default=None, description="the rollout it made")
    study_id: int | None = Field(default=None, description="the study it started")

    @property
    def reason(self) -> str:
        """`why` without how a person does it: for a line that leads to where that stands."""
        return self.why.partition(HOW)[0]

    @property
    def title(self) -> str:
        """The step in a few words, without its reason."""
        what = self.action.value.replace("_", " ")
        if self.revision is not None:
            what += f" revision {self.revision}" + ("" if self.back_to is None else f" to {self.back_to}")
        what += "" if self.node is None else f" {self.node}"
        begun = {"rollout": self.rollout_id, "study": self.study_id}
        which = ", ".join(f"{kind} {number}" for kind, number in begun.items() if number is not None)
        until = "" if self.until is None else f" until {self.until:%Y-%m-%d %H:%M:%S} UTC"
        return f"{what}: {self.state.value}{until}" + (f" ({which})" if which else "")

"""What the choice of a remedy says: the step to keep with the alert, and the deed, if any, that is behind it."""

from dataclasses import dataclass

from controlplane.contract.bodies.remedies import RemedyStep
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.bodies.studies import StudyCreate


@dataclass(frozen=True)
class CreateRollout:
    """Make this take-back, and begin it where `spec.start` says so."""

    spec: RolloutCreate


@dataclass(frozen=True)
class StartRollout:
    """Begin a take-back that was proposed earlier."""

    rollout_id: int


@dataclass(frozen=True)
class CreateStudy:
    """Queue this study; `instead_of` is the outdated one of the pool that is ended first."""

    spec: StudyCreate
    instead_of: int | None = None


@dataclass(frozen=True)
class Choice:
    """`step` is as it stands once the deed is done; a deed that fails makes it declined. `after_the_last`: not without
    the choice before it."""

    step: RemedyStep
    deed: CreateRollout | StartRollout | CreateStudy | None = None
    after_the_last: bool = False

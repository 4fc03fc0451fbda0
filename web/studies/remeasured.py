"""The finalist runs of a study, one row for each configuration: who was measured again, how often, with what spread.

Pure. Guarantee: a row is of fresh runs only; search measurements, each single and noisy, never enter it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.contract.bodies.studies import FINALIST, MEASURED, StudyResult, Trial


@dataclass(frozen=True)
class Arm:
    """One configuration's fresh runs. Seconds are of the objective; None where no run was measured."""

    name: str  # "default", "winner", or before the result "candidate".
    knobs: dict[str, Any]
    runs: int
    failed: int
    mean_s: float | None
    lowest_s: float | None
    highest_s: float | None


def arms_of(result: StudyResult | None, trials: Sequence[Trial]) -> list[Arm]:
    """The default first. `trials`: all of a study, in their order."""
    finalists = [trial for trial in trials if trial.kind == FINALIST and trial.state in MEASURED]
    default = next((trial.knobs for trial in trials if trial.kind == "default"), None)
    different: list[dict[str, Any]] = []
    for trial in finalists:
        if trial.knobs not in different:
            different.append(trial.knobs)
    arms = []
    for knobs in sorted(different, key=lambda knobs: knobs != default):
        own = [trial for trial in finalists if trial.knobs == knobs]
        seconds = [trial.objective_s for trial in own if trial.objective_s is not None]
        arms.append(
            Arm(
                name=_name(knobs, default, result),
                knobs=knobs,
                runs=len(seconds),
                failed=len(own) - len(seconds),
                mean_s=sum(seconds) / len(seconds) if seconds else None,
                lowest_s=min(seconds, default=None),
                highest_s=max(seconds, default=None),
            )
        )
    return arms


def _name(knobs: dict[str, Any], default: dict[str, Any] | None, result: StudyResult | None) -> str:
    if knobs == default:
        return "default"
    return "winner" if result is not None and result.repeats and knobs == result.winner else "candidate"

"""What is to be known of a study's runs beside their figures: whether they settled, and how many draft tokens
production accepts. Pure."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from controlplane.contract.bodies.studies import Trial
from controlplane.contract.planning.draft_acceptance import DraftCounts, counts_text


def unsettled_says(trials: Sequence[Trial]) -> str:
    """Of how many runs the queue grew up to their end; empty of none."""
    measured = [trial.measurement for trial in trials if trial.measurement is not None]
    grew = sum(one.grew for one in measured)
    if not grew:
        return ""
    return (
        f"In {grew} of {len(measured)} runs more and more requests were under way up to the end: these never settled, "
        "and a longer run would give other figures."
    )


def production_says(summary: dict[str, Any]) -> str:
    """How many draft tokens production accepted; empty where it is not known. summary: a study's `workload_summary`."""
    try:
        found = DraftCounts.model_validate(summary.get("drafts_in_production"))
    except ValidationError:
        return ""
    return f"In production {counts_text(found)} of draft tokens are accepted."

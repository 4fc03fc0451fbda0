"""Remedies on an alert's row: the steps that have been chosen for it so far."""

from collections.abc import Sequence

from controlplane.alerts.tables import AlertRow
from controlplane.contract.bodies.remedies import RemedyStep


def add_steps(row: AlertRow, steps: Sequence[RemedyStep]) -> None:
    """Append to what stands there. The alert's study is the first that any step names."""
    row.remedies = [*row.remedies, *(step.model_dump(mode="json") for step in steps)]
    if row.study_id is None:
        row.study_id = next((step.study_id for step in steps if step.study_id is not None), None)

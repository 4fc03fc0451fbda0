"""The twin's forecasts of a study's runs beside what was measured. Pure."""

from dataclasses import dataclass

from controlplane.contract.bodies.studies import StudyResult, TwinBeside


@dataclass(frozen=True)
class BesideRow:
    """error: forecast over measured, less 1."""

    number: int
    name: str
    value_s: float
    low_s: float
    high_s: float
    measured_s: float
    error: float
    within: bool
    of_class: str


def beside_rows(result: StudyResult | None) -> list[BesideRow]:
    """In the trials' order; none where the twin could not tell."""
    return [_row(one) for one in (result.twin if result is not None else ()) if one.measured_s > 0]


def _row(told: TwinBeside) -> BesideRow:
    metric, _, q = told.name.partition(":")
    return BesideRow(
        number=told.number,
        name=f"{metric} p{100 * float(q):g}",
        value_s=told.value_s,
        low_s=told.low_s,
        high_s=told.high_s,
        measured_s=told.measured_s,
        error=told.value_s / told.measured_s - 1.0,
        within=told.low_s <= told.measured_s <= told.high_s,
        of_class="calibrated" if told.calibrated else f"extrapolated: {'; '.join(told.because)}",
    )

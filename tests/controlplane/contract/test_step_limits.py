"""What binds a step: every limit has its words, and the knob that lifts it is one."""

from controlplane.contract.knobs import KNOBS
from controlplane.contract.step_limits import KV_MEMORY, LIFTED_BY, MEANING, STEP_LIMITS, StepLimit


def test_each_limit_but_the_absence_of_work_is_lifted_by_a_knob_or_an_option() -> None:
    assert set(LIFTED_BY) == set(StepLimit) - {StepLimit.NO_WORK}
    assert {lever for lever in LIFTED_BY.values() if lever != KV_MEMORY} <= set(KNOBS)
    assert set(MEANING) == set(StepLimit) and {str(limit) for limit in StepLimit} == STEP_LIMITS

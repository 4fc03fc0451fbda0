"""What bound a step, decided from what the scheduler ran into while it planned it, and from how its drafts fared."""

from controlplane.contract.step_limits import StepLimit


def limit_of_plan(*, blocks: bool, budget: bool, seats: bool, chunk: bool) -> StepLimit:
    """What kept more from being planned; `no_work` where nothing did.

    blocks: for want of KV blocks a request was set back, cut short or not started. budget: a token that could have been
    computed found none of the budget left. seats: somebody waited while as many ran as may. chunk: a prompt was cut
    to the chunk size, not by the budget.

    A shortage of blocks comes first: it costs what was computed already. Then the budget: with none of it left, neither
    another seat nor a larger chunk would compute a token more.
    """
    if blocks:
        return StepLimit.KV_MEMORY
    if budget:
        return StepLimit.TOKEN_BUDGET
    if seats:
        return StepLimit.MAX_NUM_SEQS
    return StepLimit.CHUNK if chunk else StepLimit.NO_WORK


def limit_of_step(planned: StepLimit, rejected: int) -> StepLimit:
    """What bound a step that was computed; rejected: its draft tokens that were not accepted."""
    return StepLimit.DRAFTS if rejected and planned is StepLimit.NO_WORK else planned

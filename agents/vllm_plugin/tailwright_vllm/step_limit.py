"""What bound a step of vLLM's scheduler, decided from what it left behind.

The words and their order are those of the embedded engine, and so are the two last decisions here, which a test holds
to be the same (agents/engine/scheduling/step_limit.py, controlplane/contract/step_limits.py say what each means).
"""

from typing import NamedTuple

KV_MEMORY, TOKEN_BUDGET, MAX_NUM_SEQS, CHUNK, NO_WORK, DRAFTS = LIMITS = (
    "kv_memory",
    "token_budget",
    "max_num_seqs",
    "chunk",
    "no_work",
    "drafts",
)


class Left(NamedTuple):
    """How a step was left once it was planned.

    no_blocks     a request was set back, or not started, because the KV blocks that it wanted were not free
    budget_spent  no token of the step's budget is left
    seat_free     fewer run than may
    waits         somebody waits who could run
    cut           a running request has prompt left to compute, or got no token at all
    cut_to_chunk  a running request has prompt left to compute and got as much of it as the chunk size lets it
    held_back     vLLM may have kept somebody waiting for a reason that no limit is: it was paused, or told to start no
                  prompt in this step, or does not tell who waits for something else
    """

    no_blocks: bool
    budget_spent: bool
    seat_free: bool
    waits: bool
    cut: bool
    cut_to_chunk: bool
    held_back: bool


def planned_limit(left: Left) -> "str | None":
    """What kept more from being planned; None where vLLM held it back for reasons that no limit lifts.

    Somebody who could run and has a seat, blocks and part of the budget waits only because what is left of the budget
    is too small for what must be computed at once: a whole prompt, an item of one, a padded draft.
    """
    could_start = left.waits and left.seat_free
    if could_start and left.held_back and not (left.no_blocks or left.budget_spent):
        return None
    return limit_of_plan(
        blocks=left.no_blocks,
        budget=could_start or (left.budget_spent and left.cut),
        seats=left.waits and not left.seat_free,
        chunk=left.cut_to_chunk and not left.budget_spent,
    )


def limit_of_plan(*, blocks: bool, budget: bool, seats: bool, chunk: bool) -> str:
    """The first of the limits that hold; `no_work` where none does."""
    if blocks:
        return KV_MEMORY
    if budget:
        return TOKEN_BUDGET
    if seats:
        return MAX_NUM_SEQS
    return CHUNK if chunk else NO_WORK


def limit_of_step(planned: str, rejected: int) -> str:
    """What bound a step that was computed; rejected: its draft tokens that were not accepted."""
    return DRAFTS if rejected and planned == NO_WORK else planned

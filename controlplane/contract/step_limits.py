"""What bound an engine step: why it did not compute more than it did. Exactly one for each step, and what lifts it."""

from enum import StrEnum

from controlplane.contract.knobs import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
)


class StepLimit(StrEnum):
    """Values of the attribute `limit`. Where several hold, the first of this order counts, but `no_work` last."""

    KV_MEMORY = "kv_memory"  # No KV block was free for the next request, or one was set back for want of them.
    TOKEN_BUDGET = "token_budget"  # Tokens that could have been computed found none of the step's budget left.
    MAX_NUM_SEQS = "max_num_seqs"  # Requests waited while as many ran as may.
    CHUNK = "chunk"  # A prompt was cut to the chunk size though the budget had room.
    NO_WORK = "no_work"  # Everything that was there to compute was computed.
    DRAFTS = "drafts"  # The same, but drafts were rejected: part of the step was spent for nothing.


STEP_LIMITS: frozenset[str] = frozenset(StepLimit)

KV_MEMORY = "kv_cache_memory_bytes"
"""An option of the engine's start, no knob: the embedded engine and vLLM have it by this name."""

LIFTED_BY: dict[StepLimit, str] = {
    StepLimit.KV_MEMORY: KV_MEMORY,
    StepLimit.TOKEN_BUDGET: MAX_NUM_BATCHED_TOKENS,
    StepLimit.MAX_NUM_SEQS: MAX_NUM_SEQS,
    StepLimit.CHUNK: PREFILL_CHUNK_SIZE,
    StepLimit.DRAFTS: NUM_SPECULATIVE_TOKENS,
}
"""The knob (or start option) that lifts a limit; `no_work` needs none."""

MEANING: dict[StepLimit, str] = {
    StepLimit.KV_MEMORY: "no KV memory for the next request: give the cache more, or run fewer at once",
    StepLimit.TOKEN_BUDGET: "the step's token budget was used up: raise it, if longer steps are bearable",
    StepLimit.MAX_NUM_SEQS: "requests waited for a seat: let more run at once",
    StepLimit.CHUNK: "a prompt was cut though the budget had room: raise the chunk size",
    StepLimit.NO_WORK: "nothing waited: the engine kept up",
    StepLimit.DRAFTS: "nothing waited, but drafts were rejected: draft fewer tokens",
}
"""Each in a few words, with what to do."""

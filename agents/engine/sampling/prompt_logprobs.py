"""Log probabilities of a prompt's own tokens, gathered while the prompt is computed, chunk by chunk.

Guarantee: every token of the prompt but the first is told once, whatever the chunks and preemptions. Such a prompt
takes nothing from the prefix cache: a cached token has no logits.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.engine.sampling.logprobs import token_logprobs
from agents.engine.scheduling.step_plan import Work

_ROWS_AT_ONCE = 64


def wanted_rows(work: Work) -> int:
    """How many of a work's last rows need logits: those that predict a prompt's token, or give a next one."""
    if _tells_prompt(work):
        return work.count + len(work.drafts)
    return len(work.drafts) + 1 if work.samples else 0


def take_prompt_logprobs(works: Sequence[Work], logits: Tensor) -> Tensor:
    """Note the prompts' log probabilities on their requests. Returns the logits of the rows that give tokens."""
    if not any(_tells_prompt(work) for work in works):
        return logits
    kept: list[int] = []
    row = 0
    for work in works:
        if _tells_prompt(work):
            _note(work, logits[row : row + work.count])
        end = row + wanted_rows(work)
        if work.samples:
            kept += range(end - len(work.drafts) - 1, end)
        row = end
    return logits[torch.tensor(kept, dtype=torch.int64, device=logits.device)]


def _tells_prompt(work: Work) -> bool:
    request = work.request
    return request.params.prompt_logprobs is not None and work.start < request.prompt_length - 1


def _note(work: Work, logits: Tensor) -> None:
    """Row i is the place of token work.start + i, and predicts the one after it."""
    request = work.request
    known = request.prompt_logprobs
    if known is None:
        known = request.prompt_logprobs = [None]
    tops = request.params.prompt_logprobs
    assert tops is not None
    end = min(work.start + work.count + 1, request.prompt_length)
    while (first := len(known)) < end:
        last = min(first + _ROWS_AT_ONCE, end)
        rows = logits[first - 1 - work.start : last - 1 - work.start]
        known += token_logprobs(rows, request.tokens[first:last], tops)

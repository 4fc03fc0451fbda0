"""What is done to logits before anything is drawn from them: stop tokens barred, biases, penalties.

Order and meaning are vLLM's (its v1 sampler): min_tokens, logit_bias, then the repetition penalty over the tokens of
prompt and output (Keskar et al. 2019, "CTRL", section 4.1), then frequency and presence penalties over the output's
tokens (OpenAI's definition). Only the entries of tokens concerned are touched.
"""

import contextlib
from collections.abc import Sequence

import torch
from torch import Tensor

from agents.engine.sampling.row import Row


def adjust(logits: Tensor, rows: Sequence[Row]) -> None:
    """Change each row of logits (n, vocabulary) in place."""
    for own, row in zip(logits, rows, strict=True):
        params = row.params
        if row.place < params.min_tokens and params.stop_token_ids:
            own[torch.tensor(sorted(params.stop_token_ids), device=own.device)] = -torch.inf
        if params.logit_bias:
            ids, biases = zip(*params.logit_bias, strict=True)
            own[torch.tensor(ids, device=own.device)] += torch.tensor(biases, device=own.device)
        if params.penalised:
            assert row.history is not None
            with row.history.ahead(row.drafts) if row.drafts else contextlib.nullcontext():
                _penalise(own, row)


def _penalise(own: Tensor, row: Row) -> None:
    params, history = row.params, row.history
    assert history is not None
    # Copied, because an array that lends out its memory cannot grow.
    ids = torch.frombuffer(history.ids, dtype=torch.int64).to(own.device, copy=True)
    counts = torch.frombuffer(history.counts, dtype=torch.float32).to(own.device, copy=True)
    seen = own[ids]
    if params.repetition_penalty != 1.0:
        penalty = params.repetition_penalty
        seen = torch.where(seen > 0, seen / penalty, seen * penalty)
    seen = seen - params.frequency_penalty * counts
    own[ids] = seen - params.presence_penalty * (counts > 0)

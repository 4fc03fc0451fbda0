"""Log probabilities beside tokens: log softmax of the raw logits, before temperature, biases and penalties.

That is vLLM's default (`logprobs_mode=raw_logprobs`) and what evaluation harnesses expect of a prompt's tokens.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.engine.request.token_logprob import TokenLogprob


def token_logprobs(logits: Tensor, tokens: Sequence[int], tops: int) -> list[TokenLogprob]:
    """logits: (n, vocabulary); tokens: the real one of each row; tops: how many of the likeliest to tell."""
    if not tokens:
        return []
    picked = logits.gather(1, torch.tensor(tokens, device=logits.device).unsqueeze(1))
    whole = torch.logsumexp(logits.float(), dim=-1, keepdim=True)
    ranks = (logits > picked).sum(dim=-1).add_(1).tolist()
    chosen = (picked - whole).squeeze(1).tolist()
    told: list[tuple[tuple[int, float], ...]] = [()] * len(tokens)
    if tops:
        values, ids = torch.topk(logits, min(tops, logits.shape[-1]), dim=-1)
        likeliest = (values - whole).tolist()
        told = [tuple(zip(own, scores, strict=True)) for own, scores in zip(ids.tolist(), likeliest, strict=True)]
    return [TokenLogprob(*parts) for parts in zip(tokens, chosen, ranks, told, strict=True)]

"""How far a variant's distribution lies from the plain one's on a given text, place by place."""

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.engine.core.step import StepEngine
from agents.engine.model.runner import Rows
from benchmarks.engine_rivals import protocol
from benchmarks.engine_rivals.our_engines import ENGINES

_ROWS = 64


def quality(reference: str, others: list[str], prompts: list[list[int]]) -> dict[str, dict[str, float]]:
    """By engine: nats (loss a token on the text), kl (mean KL(reference || it), nats), top1 (share of places where both
    have the same most likely token), tokens. Teacher-forced through the paged cache, in chunks of 64 rows."""
    names = [reference, *others]
    sums = {name: {"nats": 0.0, "kl": 0.0, "top1": 0.0} for name in names}
    places = 0
    with torch.inference_mode():
        for prompt in prompts:
            tables = {name: _tables(ENGINES[name], len(prompt)) for name in names}
            for start in range(0, len(prompt), _ROWS):
                rows = prompt[start : start + _ROWS]
                targets = torch.tensor(prompt[start + 1 : start + 1 + len(rows)], device=ENGINES[reference].device)
                counted = len(targets)
                plain: Tensor | None = None
                for name in names:
                    logits = ENGINES[name].runner.forward([Rows(rows, start, tables[name], len(rows))])
                    own = F.log_softmax(logits[:counted].float(), dim=-1)
                    plain = own if plain is None else plain
                    sums[name]["nats"] += F.nll_loss(own, targets, reduction="sum").item()
                    sums[name]["kl"] += (plain.exp() * (plain - own)).sum().item()
                    sums[name]["top1"] += (plain.argmax(dim=-1) == own.argmax(dim=-1)).sum().item()
                places += counted
            for name in names:
                ENGINES[name].pool.reset_cache()
    return {
        name: {**{key: value / places for key, value in own.items()}, "tokens": float(places)}
        for name, own in sums.items()
    }


def _tables(engine: StepEngine, tokens: int) -> list[list[int]]:
    """Blocks of an idle engine for one sequence, a table for each cache group; the caller forgets the cache after."""
    assert not engine.scheduler.has_work
    engine.pool.reset_cache()
    needed = -(-tokens // engine.pool.block_size)
    groups = len(engine.scheduler.cache.groups)
    assert groups * needed <= engine.pool.num_blocks
    # Block 0 is the one that padding rows write.
    return [list(range(1 + group * needed, 1 + (group + 1) * needed)) for group in range(groups)]


HANDLERS: dict[str, protocol.Handler] = {"quality": quality}

"""What a step computes, reads and writes, by the model's sizes: the engine's counterpart of vLLM's MFU counters.

FLOPs are two for each product: of a token with each weight, of a query with each key that it sees, and of that weight
with its value. Read: the weights of layers and head once a step, keys and values of all that its rows see. Written:
keys and values. Activations are left out (vLLM counts each operator's as if all went through memory), and so is what a
drafter computes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.engine.model.decoder import Decoder
from agents.engine.model.held_bytes import step_bytes
from agents.engine.scheduling.step_plan import Work


@dataclass(frozen=True)
class StepWork:
    """Of one step."""

    flops: int
    read_bytes: int
    write_bytes: int


@dataclass(frozen=True)
class WorkSizes:
    """token_flops: of a token, in all layers; row_flops: of a row of logits; pair_flops: of a token that sees another,
    in one layer; weight_bytes: read by each step; kv_bytes: of a token in one layer. layers: how many by window; None:
    they see all."""

    token_flops: int
    row_flops: int
    pair_flops: int
    weight_bytes: int
    kv_bytes: int
    layers: Mapping[int | None, int]

    def of(self, works: Sequence[Work], rows: int) -> StepWork:
        """rows: of logits."""
        ends: list[int] = []  # Of works of one token, most of them: each sees all that it reads.
        several: list[tuple[int, int]] = []
        for work in works:
            count = work.count + len(work.drafts)
            if count == 1:
                ends.append(work.start + 1)
            else:
                several.append((work.start, count))
        tokens = len(ends) + sum([count for _, count in several])
        pairs = context = 0
        for window, layers in self.layers.items():
            seen = sum(ends) if window is None else sum([min(end, window) for end in ends])
            pairs += layers * (seen + sum([seen_pairs(start, count, window) for start, count in several]))
            context += layers * (seen + sum([seen_tokens(start, count, window) for start, count in several]))
        return StepWork(
            flops=tokens * self.token_flops + rows * self.row_flops + pairs * self.pair_flops,
            read_bytes=self.weight_bytes + context * self.kv_bytes,
            write_bytes=tokens * sum(self.layers.values()) * self.kv_bytes,
        )


def work_sizes(decoder: Decoder) -> WorkSizes:
    """Call it anew when the decoder's weights are others."""
    config = decoder.config
    shape = config.shape()
    return WorkSizes(
        token_flops=2 * shape.token_weights,
        row_flops=2 * shape.embedding_weights,
        pair_flops=2 * shape.pair_products,
        weight_bytes=step_bytes(decoder),
        kv_bytes=config.kv_floats_per_layer * decoder.dtype.itemsize,
        layers=Counter(config.windows),
    )


def seen_pairs(start: int, count: int, window: int | None) -> int:
    """How many tokens `count` tokens from place `start` on see, added up; each sees itself."""
    end = start + count
    whole = end * (end + 1) // 2 - start * (start + 1) // 2
    if window is None or end <= window:
        return whole
    first = max(start, window)  # From here on each sees `window` tokens, and not all before it.
    return whole - ((end - window) * (end - window + 1) - (first - window) * (first - window + 1)) // 2


def seen_tokens(start: int, count: int, window: int | None) -> int:
    """How many tokens' keys and values that reads, each once."""
    return start + count if window is None else min(start + count, window - 1 + count)

"""A passage of text through a decoder in one piece, outside of any scheduler."""

import torch
from torch import Tensor

from agents.engine.model.decoder import Decoder
from agents.engine.model.runner import Rows, Runner
from agents.engine.text.tokenizer import TextCodec

_BLOCK = 16


def encode(codec: TextCodec, decoder: Decoder, texts: list[str], tokens_each: int) -> list[list[int]]:
    """Each text's first tokens, behind the model's token of beginning where it has one."""
    first = [] if decoder.config.bos_token_id is None else [decoder.config.bos_token_id]
    length = min(tokens_each, decoder.max_positions)
    return [[*first, *(token for token in codec.encode(text) if [token] != first)][:length] for text in texts]


@torch.inference_mode()
def logits(decoder: Decoder, tokens: list[int]) -> Tensor:
    """(tokens, vocabulary) float32."""
    groups = len(decoder.config.cache_groups())
    blocks = -(-len(tokens) // _BLOCK)
    tables = [list(range(1 + group * blocks, 1 + (group + 1) * blocks)) for group in range(groups)]
    return Runner(decoder, groups * blocks, _BLOCK).forward([Rows(tokens, 0, tables, len(tokens))])

"""The bytes of a decoder's weights: those it holds, by their tensors, and those of other formats, by their sizes.

Guarantee: memory that two tensors share is counted once. The figure of another format is a lower bound: padding to
whole tiles is not in it, and int4 counts as packed where a device holds it wider.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from agents.engine.model.config import ModelConfig
from agents.engine.model.decoder import Decoder
from agents.engine.quantization import int4
from controlplane.contract.knobs import Quantization

_SCALE_BYTES = 4
_INT4_GROUP_BYTES = 2 + 2
"""A scale and an offset, bfloat16."""


def tensor_bytes(tensors: Iterable[Tensor]) -> int:
    """Of all of them together; what lies in a mapped file counts as held."""
    found: dict[int, int] = {}
    for tensor in tensors:
        # What oneDNN has packed has no address.
        place = id(tensor) if tensor.is_mkldnn else tensor.data_ptr()
        found[place] = max(found.get(place, 0), tensor.numel() * tensor.element_size())
    return sum(found.values())


def held_bytes(decoder: Decoder) -> int:
    """Weights, biases, norms, the embedding and the tables of rotations."""
    return tensor_bytes(decoder.tensors())


def format_bytes(decoder: Decoder, quantization: Quantization) -> int:
    """What the same model would hold in this format, at least."""
    config, item = decoder.config, decoder.dtype.itemsize
    head = (config.vocab_size, config.hidden_size)
    head_format = Quantization.INT8 if quantization is Quantization.INT4 else quantization
    found = tensor_bytes(decoder.fixed_tensors())
    found += sum(_layer_bytes(*size, quantization, item) for size in _layer_sizes(config)) * config.num_hidden_layers
    if not config.tie_word_embeddings or quantization is not Quantization.NONE:
        found += _layer_bytes(*head, head_format, item)
    return found


def step_bytes(decoder: Decoder) -> int:
    """What each step reads of the weights, at least: the products of all layers and of the head."""
    config, item = decoder.config, decoder.dtype.itemsize
    runs, _ = decoder.quantization()
    head = _layer_bytes(config.vocab_size, config.hidden_size, decoder.head_quantization, item)
    return sum(_layer_bytes(*size, runs, item) for size in _layer_sizes(config)) * config.num_hidden_layers + head


def activation_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """What a token holds at once in a layer's feed-forward, at least: the residual stream, its norm, queries and what
    they attended to, and both halves of the gate."""
    queries = config.num_attention_heads * config.head_dim
    return (2 * config.hidden_size + 2 * queries + 2 * config.intermediate_size) * dtype.itemsize


def logits_bytes(config: ModelConfig) -> int:
    """A token's row of logits, float32."""
    return config.vocab_size * torch.float32.itemsize


def _layer_sizes(config: ModelConfig) -> list[tuple[int, int]]:
    """(outputs, inputs) of a layer's products, as `load_layer` stacks them."""
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    query_width, key_width = config.num_attention_heads * dim, config.num_key_value_heads * dim
    return [(query_width + 2 * key_width, hidden), (hidden, query_width), (2 * inner, hidden), (hidden, inner)]


def _layer_bytes(outputs: int, inputs: int, quantization: Quantization, item: int) -> int:
    if quantization is Quantization.NONE:
        return outputs * inputs * item
    if quantization is Quantization.INT4:
        groups = -(-inputs // int4.GROUP)
        return outputs * groups * (int4.GROUP // 2 + _INT4_GROUP_BYTES)
    return outputs * (inputs + _SCALE_BYTES)

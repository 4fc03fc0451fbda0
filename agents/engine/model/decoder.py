"""One decoder for every family, written out: rows of tokens in, rows of logits out, keys and values in a paged cache.

Guarantee: in float32 the logits are those of transformers' class of the same architecture to rounding, and a row's
logits have the same bits whatever else the step computes (see `quantization/` and `attention.py` for how).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from agents.engine.model.cache_pages import Pages, View
from agents.engine.model.config import ModelConfig
from agents.engine.model.layer import Layer, load_layer, read_norm
from agents.engine.model.weights import WeightFolder
from agents.engine.ops.ops import AttentionPlan, AttentionShape, Ops
from agents.engine.ops.torch_ops import TorchOps
from agents.engine.quantization.int4 import Int4Codes
from agents.engine.quantization.linear import Linear, LinearBuilder
from agents.engine.quantization.plain import PlainLinear
from controlplane.contract.knobs import Quantization


@dataclass(frozen=True)
class StepInput:
    """A step's tokens and positions, each (rows,); their cache slots, (rows,) for each cache group; the attention plan
    of each view; logit_rows: whose logits are wanted (None: all); depth: layers to compute before the final norm and
    the head (None: all)."""

    tokens: Tensor
    positions: Tensor
    slots: tuple[Tensor, ...]
    plans: Mapping[View, AttentionPlan]
    logit_rows: Tensor | None
    depth: int | None = None


class Decoder:
    """Weights and the forward pass. `load` reads a folder; the cache is the caller's."""

    def __init__(
        self,
        config: ModelConfig,
        embedding: Tensor,
        layers: list[Layer],
        norm: Tensor,
        head: Linear,
        ops: Ops,
        max_positions: int,
    ) -> None:
        self.config, self.ops, self.max_positions = config, ops, max_positions
        self.dtype, self.device = embedding.dtype, embedding.device
        self._embedding, self._layers, self._norm, self._head = embedding, layers, norm, head
        # transformers scales in the model's dtype, so that the factor itself is rounded.
        self._scale = float(torch.tensor(config.embedding_scale, dtype=self.dtype))
        ropes = config.ropes()
        self._rotations = [rope.table(config.head_dim, max_positions, self.dtype, self.device) for rope in ropes]
        self._rotation_of = [ropes.index(config.rope_of(layer)) for layer in range(config.num_hidden_layers)]
        self.times_attention = self.device.type == "cpu"
        """Elsewhere a call returns before the work is done, and waiting for it would cost more than it tells."""
        self.last_attention_s: float | None = None
        """Seconds that the last forward pass spent in attention, over all its layers; None: not measured."""

    @classmethod
    def load(
        cls,
        model_dir: Path,
        config: ModelConfig,
        quantization: Quantization,
        dtype: torch.dtype,
        ops: Ops | None = None,
        device: torch.device | None = None,
        max_positions: int | None = None,
        linears: LinearBuilder | None = None,
    ) -> "Decoder":
        """Read the folder's weights. max_positions: the most tokens a sequence will have (None: what the model was made
        for); linears: what builds the layers (None: a builder of this quantization). Raises `BadRequest` when a
        tensor is missing or of another shape."""
        linears = linears or LinearBuilder(quantization)
        folder = WeightFolder(model_dir, device)
        shape = (config.vocab_size, config.hidden_size)
        embedding = folder.read("model.embed_tokens.weight", dtype, shape)
        layers = [load_layer(folder, config, index, linears, dtype) for index in range(config.num_hidden_layers)]
        head = embedding if config.tie_word_embeddings else folder.read("lm_head.weight", dtype, shape)
        norm = read_norm(folder, config, "model.norm.weight", config.hidden_size)
        positions = min(max_positions or config.max_position_embeddings, config.max_position_embeddings)
        return cls(config, embedding, layers, norm, linears.head(head), ops or TorchOps(), positions)

    def quantization(self) -> tuple[Quantization, int]:
        """The weight format that the linear layers really have, and their number."""
        formats = [linear.quantization for layer in self._layers for linear in layer.linears()]
        assert len(set(formats)) == 1
        return formats[0], len(formats)

    def tensors(self) -> list[Tensor]:
        """All that it holds besides the cache."""
        linears = [*(linear for layer in self._layers for linear in layer.linears()), self._head]
        held = [value for linear in linears for value in vars(linear).values()]
        held += [value for codes in held if isinstance(codes, Int4Codes) for value in vars(codes).values()]
        return [*self.fixed_tensors(), *(value for value in held if isinstance(value, Tensor))]

    def fixed_tensors(self) -> list[Tensor]:
        """Those that are the same in every weight format."""
        norms = [norm for layer in self._layers for norm in layer.norms()]
        tables = [table for pair in self._rotations for table in pair]
        return [self._embedding, self._norm, *tables, *norms]

    def plain_layers(self) -> list[PlainLinear]:
        """Those of its linear layers, the head among them, whose weights keep their dtype."""
        layers = [linear for layer in self._layers for linear in layer.linears()]
        return [layer for layer in (*layers, self._head) if isinstance(layer, PlainLinear)]

    @property
    def head_quantization(self) -> Quantization:
        """The weight format of the output layer."""
        return self._head.quantization

    def attention_shape(self, block_size: int) -> AttentionShape:
        config = self.config
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        return AttentionShape(heads, kv_heads, config.head_dim, block_size, self.dtype, self.device)

    def forward(self, step: StepInput, pages: Pages) -> Tensor:
        """Writes the rows' keys and values to the pages; returns float32 logits (logit rows, vocabulary)."""
        config, ops, epsilon = self.config, self.ops, self.config.rms_norm_eps
        turns = [
            (cos.index_select(0, step.positions), sin.index_select(0, step.positions)) for cos, sin in self._rotations
        ]
        stream = self._embedding.index_select(0, step.tokens)
        if self._scale != 1.0:
            stream = stream * self._scale
        layers = self._layers[: step.depth]
        normed = ops.rms_norm(stream, layers[0].input_norm, epsilon)
        following = [*(layer.input_norm for layer in layers[1:]), self._norm]
        attention_s = 0.0
        for number, (layer, next_norm) in enumerate(zip(layers, following, strict=True)):
            view, page = pages.views[number], pages.tensors[pages.places[number]]
            cos, sin = turns[self._rotation_of[number]]
            queries = ops.rotate_and_store(
                layer.qkv(normed), layer.head_norms, cos, sin, step.slots[view.group], page, config.num_attention_heads
            )
            began = perf_counter()
            seen = ops.attend(queries, page, step.plans[view], config.attention_scale)
            attention_s += perf_counter() - began
            attended = layer.out(seen)
            if layer.attention_out_norm is not None:
                attended = ops.rms_norm(attended, layer.attention_out_norm, epsilon)
            normed, stream = ops.add_rms_norm(attended, stream, layer.feed_forward_norm, epsilon)
            mixed = layer.down(ops.gate(layer.gate_up(normed), config.activation))
            if layer.feed_forward_out_norm is not None:
                mixed = ops.rms_norm(mixed, layer.feed_forward_out_norm, epsilon)
            normed, stream = ops.add_rms_norm(mixed, stream, next_norm, epsilon)
        self.last_attention_s = attention_s if self.times_attention else None
        if step.logit_rows is not None:
            normed = normed.index_select(0, step.logit_rows)
        return self._head(normed).float()

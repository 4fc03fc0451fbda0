"""What the time between tokens is made of, when so many requests of one length are always under way (pure).

The seconds that each part would take at the accelerator's own figures; what it takes in truth is a multiple, which
`learned_pace` learns. A step decodes all requests that run, and computes the prompts of those that take the place of
ended ones: with n running and `output` tokens each, n / output prompts a step. (The sums are those of aiconfigurator
and of BLIS, without their tables of operators.)

With stages (pipeline parallel) as many batches are under way, each with its share of the requests: a token takes as
many steps of the slowest stage as there are stages. A prompt that comes alone holds up everybody for as long as it
takes through all of them; where each batch has one they fill each other's gaps, and each holds up for one stage's part.
"""

import math
from dataclasses import dataclass

from controlplane.contract.reports.model_shape import ModelShape
from controlplane.hardware.accelerators import UNQUANTIZED_BYTES, Accelerator, WeightFormat

Parts = tuple[float, ...]
NAMES = ("weights", "kv", "prompts", "attention", "exchange", "requests", "step", "experts")
"""In their order in `Parts`, before the launches of each engine:
weights    of all layers and the head, read once a step; of experts those that its tokens take;
kv         keys and values of all tokens of the requests that run, read once a step;
prompts    products of prompt tokens with weights;
attention  products of queries and keys in prompts; of latents those of decodes, too, which are as many as to matter;
exchange   activations between the ranks, twice a layer, and between stages;
requests   a microsecond for each that runs: the host's part;
step       a tenth of a millisecond;
experts    a microsecond a layer that has some: what it launches beside a dense one.
launches   a microsecond a layer; how many that are, is the engine's.
"""
USED_SHARE = 0.9
"""Of an accelerator's memory, as engines take it."""
BESIDE_BYTES = 4e9
"""Of each accelerator for activations, graphs and the runtime (3.3 to 5.6 GB were measured by llm-d-planner)."""
HOP_S = 1e-5
"""From one stage to the next, whatever is sent (aiconfigurator's system files: 10 us from device to device)."""


@dataclass(frozen=True)
class Deployment:
    """A model on `ranks` accelerators that share each layer (tensor parallel), in `stages` one after the other
    (pipeline parallel). kv_bytes: of a cached value."""

    shape: ModelShape
    accelerator: Accelerator
    weights: WeightFormat
    engine: str
    ranks: int
    kv_bytes: int
    stages: int = 1

    @property
    def devices(self) -> int:
        return self.ranks * self.stages

    @property
    def stage_share(self) -> float:
        """Of the layers, in the stage that has most."""
        return math.ceil(self.shape.layers / self.stages) / self.shape.layers

    @property
    def weight_bytes(self) -> float:
        """On all accelerators."""
        return self._layer_bytes + 2 * self._head_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        """On all accelerators."""
        return self.shape.kv_values_per_token(self.ranks) * self.kv_bytes

    @property
    def cache_bytes(self) -> float:
        """What memory leaves for the KV cache, on all accelerators; 0 or less: the weights do not fit. All stages have
        room for as many tokens as the fullest, which has the embedding or the head besides."""
        used = self.accelerator.memory * USED_SHARE - BESIDE_BYTES
        beside = self._head_bytes * (2 if self.stages == 1 else 1)
        return (used * self.ranks - self.stage_share * self._layer_bytes - beside) / self.stage_share

    @property
    def _layer_bytes(self) -> float:
        return self.shape.layer_weights * self.weights.bytes

    @property
    def _head_bytes(self) -> float:
        """The embedding has as many."""
        return self.shape.embedding_weights * UNQUANTIZED_BYTES


@dataclass(frozen=True)
class Load:
    """prompt, output: tokens of a request; concurrency: requests that are always under way; cached: the share of each
    prompt's beginning that the prefix cache has."""

    prompt: float
    output: float
    concurrency: float
    cached: float = 0.0

    @property
    def context(self) -> float:
        """Tokens that a request holds, on average over its output."""
        return self.prompt + self.output / 2


def room(deployment: Deployment, load: Load) -> float:
    """How many such requests the KV cache holds, on average over their life; below 1: not one."""
    held = deployment.shape.kv_values(load.context, deployment.ranks) * deployment.kv_bytes
    return deployment.cache_bytes / held


def parts_of(deployment: Deployment, load: Load, engines: tuple[str, ...], *, gaps_filled: bool = False) -> Parts:
    """Seconds of each part of a step at the accelerator's own figures; those that find no room wait, and run later.
    gaps_filled: whether prompts of several batches fill the gaps that each leaves in a pipeline."""
    running = min(load.concurrency, max(1.0, room(deployment, load)))
    # Its own prompt is no part of a request's time between tokens.
    prompts = (running - 1) / load.output / (deployment.stages if gaps_filled else 1)
    return _parts(deployment, load, engines, max(1.0, running / deployment.stages), prompts)


def prompt_parts(deployment: Deployment, load: Load, engines: tuple[str, ...]) -> Parts:
    """The same of a step that computes one prompt, alone."""
    return _parts(deployment, load, engines, 1.0, 1.0)


def _parts(deployment: Deployment, load: Load, engines: tuple[str, ...], running: float, prompts: float) -> Parts:
    """Through all stages, each as slow as the slowest. running: of one batch."""
    shape, device, ranks, stages = deployment.shape, deployment.accelerator, deployment.ranks, deployment.stages
    own = load.prompt * (1 - load.cached)
    computed = own * prompts
    # A step without a prompt has a token of each that runs; one with a prompt reads nearly all experts.
    with_prompt = min(1.0, prompts)
    read = (1 - with_prompt) * shape.read_weights(running) + with_prompt * shape.read_weights(running + own)
    head = 2 * shape.embedding_weights * UNQUANTIZED_BYTES
    seen = load.prompt * (1 + load.cached)
    looked = (shape.layers - shape.windowed_layers) * seen + shape.windowed_layers * min(seen, 2 * shape.window)
    pairs = shape.pair_products * looked * computed + 2 * shape.layers * shape.latent_products * running * load.context
    tokens = running + computed
    sent = tokens * shape.hidden * 2
    exchanged = 2 * shape.layers * sent * 2 * (ranks - 1) / ranks
    hops_s = stages * (sent / device.link + HOP_S) if stages > 1 else 0.0
    layers = stages * deployment.stage_share
    launches = layers * shape.layers * 1e-6
    return (
        (layers * read * deployment.weights.bytes + stages * head) / ranks / device.bandwidth,
        layers * running * shape.kv_values(load.context, ranks) * deployment.kv_bytes / ranks / device.bandwidth,
        layers * 2 * shape.token_weights * computed / ranks / device.flops_of(deployment.weights.bits),
        layers * pairs / ranks / device.flops_of(16),
        layers * exchanged / device.link + hops_s,
        stages * running * 1e-6,
        stages * 1e-4,
        layers * shape.expert_layers * 1e-6,
        *(launches if one == deployment.engine else 0.0 for one in engines),
    )

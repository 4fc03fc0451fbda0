"""The drafter that the options ask for, under the gate unless it is switched off."""

import torch

from agents.engine.drafting.draft_model import ModelDrafter
from agents.engine.drafting.drafting import NgramDrafter
from agents.engine.drafting.early_exit import EarlyExitDrafter, default_depth
from agents.engine.drafting.speculator import Speculator
from agents.engine.model.config import ModelConfig, read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.runner import Runner
from agents.engine.options import EngineOptions, SpeculativeMethod
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.speculation.gate import Gate
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import Quantization


def read_draft_config(options: EngineOptions, model: ModelConfig) -> ModelConfig | None:
    """The draft model's shape, None when there is none. Raises `BadRequest` when it cannot draft for the model."""
    if options.speculative_method != SpeculativeMethod.DRAFT_MODEL:
        return None
    assert options.draft_model is not None
    config = read_model_config(options.draft_model)
    if config.vocab_size != model.vocab_size:
        raise BadRequest(
            f"draft_model: its vocabulary has {config.vocab_size} tokens, the model's {model.vocab_size}",
            field="draft_model",
        )
    if config.max_position_embeddings < min(options.max_model_len or 2**31, model.max_position_embeddings):
        raise BadRequest("draft_model: its context is shorter than the model's", field="draft_model")
    return config


def build_speculator(
    options: EngineOptions, runner: Runner, draft_config: ModelConfig | None, num_blocks: int, dtype: torch.dtype
) -> Speculator:
    """runner: the target's. Raises `BadRequest` that names an option which does not fit the model."""
    model = runner.decoder.config
    if not 0 <= (options.early_exit_layer or 0) <= model.num_hidden_layers:
        raise BadRequest(
            f"early_exit_layer: {options.early_exit_layer}, but the model has {model.num_hidden_layers} layers",
            field="early_exit_layer",
        )
    speculator = Speculator(NgramDrafter(), Gate() if options.speculation_gate else None)
    if draft_config is not None:
        assert options.draft_model is not None
        target = runner.decoder
        decoder = Decoder.load(
            options.draft_model,
            draft_config,
            Quantization.NONE,
            dtype,
            target.ops,
            target.device,
            target.max_positions,
        )
        # All its layers use one of the target's tables; those with a window mask what they do not see.
        whole = CacheGroup(tuple(range(draft_config.num_hidden_layers)))
        draft_runner = Runner(decoder, num_blocks, options.block_size, (whole,))
        speculator.drafter = ModelDrafter(draft_runner, _whole_group(model.cache_groups()), speculator.is_wanted)
    elif options.speculative_method == SpeculativeMethod.EARLY_EXIT:
        depth = options.early_exit_layer or default_depth(model.num_hidden_layers)
        speculator.drafter = EarlyExitDrafter(runner, depth)
    return speculator


def _whole_group(groups: tuple[CacheGroup, ...]) -> int:
    """The first cache group whose table keeps every block, else the first: there the draft model sees the whole
    context."""
    return next((place for place, group in enumerate(groups) if group.window is None), 0)

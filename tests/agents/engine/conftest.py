"""Tiny random folders of every architecture, made once per run, and engines over them."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import Request
from controlplane.contract.knobs import parse_config

VOCABULARY = 320
CONTEXT = 512
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 5000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SHAPES: dict[str, dict[str, Any]] = {
    "grouped_tied": {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True},
    "full_untied_biased_llama3": {
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_parameters": LLAMA3_ROPE,
    },
    "single_kv_head_linear": {
        "hidden_size": 72,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
    },
    "llama_yarn": {
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 128,
        },
    },
    "qwen2": {"family": "qwen2", "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True},
    "qwen2_sliding": {
        "family": "qwen2",
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "use_sliding_window": True,
        "sliding_window": 20,
        "max_window_layers": 2,
    },
    "qwen2_all_sliding": {
        "family": "qwen2",
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "use_sliding_window": True,
        "sliding_window": 33,
        "max_window_layers": 0,
    },
    "qwen3": {"family": "qwen3", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32},
    "gemma3": {
        "family": "gemma3",
        "num_hidden_layers": 7,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "query_pre_attn_scalar": 24,
        "sliding_window": 24,
        "sliding_window_pattern": 3,
        "tie_word_embeddings": True,
    },
}
FAMILIES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma3": "Gemma3"}
"""As transformers' classes begin; it loads them when they are asked for."""

Reference = Callable[[Path, Sequence[int], int], list[int]]
Run = Callable[..., list[list[int]]]


def pytest_configure() -> None:
    torch.set_num_threads(1)


def _save_model(folder: Path, seed: int, family: str = "llama", **shape: Any) -> Path:
    torch.manual_seed(seed)
    values = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "max_position_embeddings": CONTEXT,
        "initializer_range": 0.2,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 0,
        **shape,
    }
    name = FAMILIES[family]
    config_class = getattr(transformers, f"{name}TextConfig" if family == "gemma3" else f"{name}Config")
    model = getattr(transformers, f"{name}ForCausalLM")(config_class(**values))
    for name, parameter in model.named_parameters():
        # transformers starts biases and Gemma's norms at zero and other norms at one, which would test nothing.
        if name.endswith("bias") or "norm" in name:
            parameter.data += torch.randn_like(parameter) * 0.2
    model.save_pretrained(folder)
    _save_tokenizer(folder)
    return folder


def _save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the cat sat on the mat and the dog on the log, then the hen"] * 4, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"
    import json

    settings = {"eos_token": "<|end|>", "bos_token": "<|end|>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="session")
def model_dirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: _save_model(root / name, seed, **shape) for seed, (name, shape) in enumerate(SHAPES.items())}


@pytest.fixture(scope="session")
def model_dir(model_dirs: dict[str, Path]) -> Path:
    return model_dirs["grouped_tied"]


@pytest.fixture(scope="session")
def draft_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("draft") / "draft"
    return _save_model(folder, 9, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, hidden_size=32)


@pytest.fixture(scope="session")
def reference() -> Iterator[Reference]:
    """Greedy tokens by transformers' generate."""
    loaded: dict[Path, Any] = {}
    known: dict[tuple[Path, tuple[int, ...], int], list[int]] = {}

    def generate(folder: Path, prompt: Sequence[int], count: int) -> list[int]:
        key = (folder, tuple(prompt), count)
        if key not in known:
            if folder not in loaded:
                loaded[folder] = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
            out = loaded[folder].generate(
                torch.tensor([list(prompt)]), do_sample=False, max_new_tokens=count, eos_token_id=None, pad_token_id=0
            )
            known[key] = out[0, len(prompt) :].tolist()
        return known[key]

    yield generate


def drive(
    engine: StepEngine, prompts: Sequence[Sequence[int]], params: Sequence[SamplingParams], arrive_every: int = 0
) -> list[list[int]]:
    """Serve the prompts to their end; with `arrive_every` one more arrives each so many steps. Output tokens."""
    requests = [Request(str(n), prompt, own) for n, (prompt, own) in enumerate(zip(prompts, params, strict=True))]
    waiting = list(requests)
    steps = 0
    with torch.inference_mode():
        while waiting or engine.scheduler.has_work:
            if waiting and (not arrive_every or steps % arrive_every == 0 or not engine.scheduler.has_work):
                engine.scheduler.add(waiting.pop(0))
                if not arrive_every:
                    continue
            engine.step()
            steps += 1
    return [request.tokens[request.prompt_length :] for request in requests]


def served_alone(engine: StepEngine, prompt: list[int], count: int) -> Request:
    """The request, greedily served to its end."""
    request = Request("a", prompt, SamplingParams(count))
    engine.scheduler.add(request)
    with torch.inference_mode():
        while engine.scheduler.has_work:
            engine.step()
    return request


@pytest.fixture
def serve() -> Callable[..., tuple[list[list[int]], StepEngine]]:
    """Serve prompts greedily with a fresh engine, which is given back too; knobs as keywords, options in `options`."""

    def serve_all(
        folder: Path,
        prompts: Sequence[Sequence[int]],
        count: int,
        *,
        options: dict[str, Any] | None = None,
        arrive_every: int = 0,
        **knobs: Any,
    ) -> tuple[list[list[int]], StepEngine]:
        engine = StepEngine(EngineOptions(folder, config=parse_config(knobs), **(options or {})), EventLog())
        outputs = drive(engine, prompts, [SamplingParams(count)] * len(prompts), arrive_every)
        assert engine.pool.num_held == 0, "blocks are held after every request has ended"
        return outputs, engine

    return serve_all


@pytest.fixture
def run(serve: Callable[..., tuple[list[list[int]], StepEngine]]) -> Run:
    """As `serve`, the output tokens only."""

    def serve_outputs(folder: Path, prompts: Sequence[Sequence[int]], count: int, **asked: Any) -> list[list[int]]:
        return serve(folder, prompts, count, **asked)[0]

    return serve_outputs

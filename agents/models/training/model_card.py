"""The model cards: README.md of each bundled folder.

Guarantees: every figure is read from training.json and evaluation.json beside the weights, none is typed by hand, so
that a card can't disagree with its record.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.models.training import model_folder
from agents.models.training.evaluate import EVALUATION_RECORD
from agents.models.training.model_folder import TRAINING_RECORD

_TARGET_NAME = "tailwright-py-5m"
_TEMPLATE = Path(__file__).with_name("card_template.md")

_PURPOSE = {
    "target": "A small language model of Python source, trained from nothing for Tailwright, so that every feature of"
    " the control plane can be tried and tested on a machine without a GPU, without an account and without a download.",
    "draft": f"The draft model of `{_TARGET_NAME}` for speculative decoding: a tenth of its size, the same tokenizer.",
}

_COMMANDS = {
    "target": ("train --max-minutes 74", "evaluate", "card"),
    "draft": (
        "train --role draft --out build/draft --step-tokens 2048 --max-minutes 45",
        f"train --role draft --start build/draft --teacher {_TARGET_NAME} --step-tokens 2048 --max-minutes 10",
        "evaluate",
        "card",
    ),
}


def write(path: Path, held_out_percent: int) -> None:
    """Writes README.md of an evaluated model folder."""
    training = model_folder.read_json(path / TRAINING_RECORD)
    evaluation = model_folder.read_json(path / EVALUATION_RECORD)
    (path / "README.md").write_text(_card(path, training, evaluation, held_out_percent), encoding="utf-8")


def _card(path: Path, training: dict[str, Any], evaluation: dict[str, Any], held_out_percent: int) -> str:
    plan, shape = training["plan"], training["plan"]["shape"]
    role = "draft" if training.get("teacher") else "target"
    library, tests = evaluation["held_out"]["library"], evaluation["held_out"]["test"]
    speculation, readable = evaluation["speculation"], evaluation["readable"]
    kinds = training["corpus_tokens"]
    return _TEMPLATE.read_text(encoding="utf-8").format(
        name=path.name,
        target=_TARGET_NAME,
        purpose=_PURPOSE[role],
        layers=shape["num_hidden_layers"],
        hidden=shape["hidden_size"],
        intermediate=shape["intermediate_size"],
        heads=shape["num_attention_heads"],
        kv_heads=shape["num_key_value_heads"],
        head_dim=shape["head_dim"],
        parameters=training["parameters"],
        megabytes=training["parameters"] * 4 / 1e6,
        vocabulary=shape["vocab_size"],
        context=shape["max_position_embeddings"],
        nats=library["nats_per_token"],
        bits=library["bits_per_byte"],
        heldout_tokens=library["tokens"],
        heldout_documents=len(library["documents"]),
        test_nats=tests["nats_per_token"],
        test_bits=tests["bits_per_byte"],
        readable=readable["mostly_readable"],
        readable_prompts=readable["prompts"],
        draft_length=speculation["draft_length"],
        prompts=speculation["prompts"],
        prompt_tokens=speculation["prompt_tokens"],
        new_tokens=speculation["new_tokens"],
        ngram=speculation["ngram"],
        draft=speculation["draft_model"],
        early_tokens=speculation["early_tokens"],
        early=speculation["early"],
        repeated=speculation["repeated_8_grams"],
        libraries=" and ".join(f"`{name}`" for name in training["libraries"]),
        held_out_percent=held_out_percent,
        tokens_by_kind="Tokens: " + ", ".join(f"{kind} {count:,}" for kind, count in kinds.items()),
        corpus_sha256=training["corpus_sha256"],
        steps=training["steps"],
        tokens=training["tokens"],
        wall_minutes=training["wall_minutes"],
        threads=training["threads"],
        plural="" if training["threads"] == 1 else "s",
        seed=plan["seed"],
        length=plan["length"],
        long_length=plan["long_length"],
        teaching=_teaching(training),
        note=training.get("note", ""),
        python=training["python"],
        torch=training["torch"],
        commands="".join(f"\n  `python -m agents.models.training {command}`" for command in _COMMANDS[role]),
        sample=evaluation["sample"].rstrip(),
        sampled=evaluation["sampled"].rstrip(),
    )


def _teaching(training: dict[str, Any]) -> str:
    """How a draft came to be; nothing for the target."""
    if "teacher" not in training:
        return ""
    taught = f"Distilled from the distribution of `{training['teacher']}` on the same text"
    if before := training.get("before"):
        taught += (
            f", after {before['steps']:,} steps and {before['tokens']:,} tokens on the text itself"
            f" ({before['wall_minutes']:.0f} minutes)"
        )
    return taught + "."

"""Figures of a model folder on held-out documents, written to evaluation.json, which the model card quotes.

Guarantees: everything runs in float32 through transformers, from the shipped files; the loss of each document stands
with its SHA-256, so that anyone who has the same file can recompute it; the same files give the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn import functional as F
from transformers import AutoModelForCausalLM

from agents.models.training import model_folder, readability, speculation
from agents.models.training.training_batches import encode
from agents.models.training.training_text import Corpus, Document, Kind

EVALUATION_RECORD = "evaluation.json"
DRAFT_LENGTH = 4
_PROMPT_TOKENS = 256
_NEW_TOKENS = 128
_EARLY_TOKENS = 32  # Before greedy decoding falls into loops, which are easy to draft.
_PROMPTS = 32
_HEADERS = 40
SAMPLE_PROMPT = (
    "import os\nimport sys\n\n\n"
    'def read_config(path):\n    """Read the configuration file and return a dictionary."""\n'
)


def load_model(path: Path) -> Any:
    """The folder's model in float32, through transformers."""
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return model.eval()


@torch.no_grad()
def document_nats(model: Any, tokenizer: Tokenizer, text: str) -> tuple[float, int]:
    """The summed loss in nats and the number of tokens of one document, in windows of the model's whole context."""
    ids = torch.from_numpy(encode([Document("", text, Kind.LIBRARY)], tokenizer))
    window = model.config.max_position_embeddings
    nats = 0.0
    for start in range(0, len(ids) - 1, window):
        piece = ids[start : start + window + 1]
        logits = model(piece[None, :-1]).logits[0]
        nats += F.cross_entropy(logits, piece[1:], reduction="sum").item()
    return nats, len(ids) - 1


def held_out_loss(model: Any, tokenizer: Tokenizer, documents: Sequence[Document]) -> dict[str, Any]:
    """Loss over all documents and of each."""
    rows: list[dict[str, Any]] = []
    for document in documents:
        nats, tokens = document_nats(model, tokenizer, document.text)
        size = len(document.text.encode())
        rows.append(
            {"name": document.name, "sha256": document.sha256, "bytes": size, "tokens": tokens, "nats": round(nats, 3)}
        )
    nats, tokens, size = (sum(row[key] for row in rows) for key in ("nats", "tokens", "bytes"))
    return {
        "tokens": tokens,
        "bytes": size,
        "nats_per_token": round(nats / max(1, tokens), 4),
        "bits_per_byte": round(nats / math.log(2) / max(1, size), 4),
        "documents": rows,
    }


def prompts(tokenizer: Tokenizer, documents: Sequence[Document]) -> list[list[int]]:
    """Windows of held-out source text, evenly spaced over it."""
    ids = encode([document for document in documents if document.name.endswith(".py")], tokenizer)
    stride = max(1, (len(ids) - _PROMPT_TOKENS) // _PROMPTS)
    return [ids[start : start + _PROMPT_TOKENS].tolist() for start in range(0, stride * _PROMPTS, stride)]


def evaluate(target_folder: Path, draft_folder: Path, corpus: Corpus) -> None:
    """Writes evaluation.json beside both models."""
    target, draft = load_model(target_folder), load_model(draft_folder)
    tokenizer = Tokenizer.from_file(str(target_folder / "tokenizer.json"))
    by_kind = {
        kind.value: [document for document in corpus.held_out if document.kind is kind]
        for kind in (Kind.LIBRARY, Kind.TEST)
    }
    speculated = _speculation(target, draft, prompts(tokenizer, corpus.held_out))
    headers = list(readability.function_headers(corpus.held_out))
    for path, model in ((target_folder, target), (draft_folder, draft)):
        record = {
            "corpus_sha256": corpus.sha256,
            "held_out": {kind: held_out_loss(model, tokenizer, documents) for kind, documents in by_kind.items()},
            "speculation": speculated,
            "readable": _readability(model, tokenizer, headers),
            "sample": _complete(model, tokenizer, SAMPLE_PROMPT, 60),
            "sampled": _sample(model, tokenizer, SAMPLE_PROMPT, 200),
        }
        model_folder.write_json(path / EVALUATION_RECORD, record)


def _speculation(target: Any, draft: Any, starts: Sequence[list[int]]) -> dict[str, Any]:
    drafters = {"ngram": speculation.ngram_drafter(), "draft_model": speculation.model_drafter(draft)}
    counts = dict.fromkeys(drafters, speculation.Counts())
    early = dict.fromkeys(drafters, speculation.Counts())
    repeated = 0.0
    for prompt in starts:
        text = speculation.greedy(target, prompt, _NEW_TOKENS)
        repeated += speculation.repeated_share(text) / len(starts)
        for name, drafter in drafters.items():
            counts[name] += speculation.replay(prompt, text, drafter, DRAFT_LENGTH)
            early[name] += speculation.replay(prompt, text[:_EARLY_TOKENS], drafter, DRAFT_LENGTH)
    return {
        "draft_length": DRAFT_LENGTH,
        "prompts": len(starts),
        "prompt_tokens": _PROMPT_TOKENS,
        "new_tokens": _NEW_TOKENS,
        "repeated_8_grams": round(repeated, 4),
        **{name: count.figures() for name, count in counts.items()},
        "early_tokens": _EARLY_TOKENS,
        "early": {name: count.figures() for name, count in early.items()},
    }


def _readability(model: Any, tokenizer: Tokenizer, headers: Sequence[str]) -> dict[str, Any]:
    chosen = headers[:: max(1, len(headers) // _HEADERS)][:_HEADERS]
    shares = [readability.readable_share(_complete(model, tokenizer, header, 96)) for header in chosen]
    return {
        "prompts": len(shares),
        "mean_share_of_lines": round(sum(shares) / max(1, len(shares)), 4),
        "mostly_readable": round(sum(share >= 0.5 for share in shares) / max(1, len(shares)), 4),
    }


def _complete(model: Any, tokenizer: Tokenizer, prompt: str, new_tokens: int) -> str:
    ids = tokenizer.encode(prompt).ids
    text: str = tokenizer.decode(ids + speculation.greedy(model, ids, new_tokens))
    return text


@torch.no_grad()
def _sample(model: Any, tokenizer: Tokenizer, prompt: str, new_tokens: int) -> str:
    """One draw at temperature 0.7 and top-p 0.9 with a fixed seed."""
    torch.manual_seed(7300)
    tokens = torch.tensor([tokenizer.encode(prompt).ids])
    output = model.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        max_new_tokens=new_tokens,
        do_sample=True,
        temperature=0.7,
        top_p=0.9,
        top_k=0,
    )
    text: str = tokenizer.decode(output[0].tolist())
    return text

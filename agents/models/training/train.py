"""One training run, bounded by the clock.

Guarantees: the learning rate follows elapsed time and reaches zero at `max_minutes`, so that a slow machine gives a
less trained model, never a broken one; the model folder is whole at all times once the first checkpoint is written; a
run that was stopped resumes from its state file with the same schedule. With a teacher, the loss is the cross-entropy
against the teacher's distribution (Hinton et al. 2015), which is what a draft model's acceptance depends on.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from agents.models.training import model_folder
from agents.models.training.trained_decoder import Decoder, Shape
from agents.models.training.training_batches import Sampler
from agents.models.training.training_text import Corpus

_WARM_UP = 0.01
_DECAY_FROM = 0.35
_LONG_FROM = 0.87


@dataclass(frozen=True)
class Plan:
    """What a run does; the record beside the model repeats it. Lengths and sizes are in tokens."""

    shape: Shape
    max_minutes: float
    seed: int = 7300
    step_tokens: int = 8192
    micro_batch_tokens: int = 2048
    length: int = 512
    long_length: int = 2048
    matrix_rate: float = 0.02
    other_rate: float = 3e-3
    matrix_decay: float = 0.05
    checkpoint_minutes: float = 4.0
    max_steps: int | None = None
    bf16: bool = True


class Run:
    """A model, its optimizers and its progress. `minutes` counts training time over all resumptions."""

    def __init__(self, plan: Plan, teacher: Decoder | None = None) -> None:
        torch.manual_seed(plan.seed)
        self.plan = plan
        self.teacher = teacher
        self.model = Decoder(plan.shape)
        matrices = [p for p in self.model.model.layers.parameters() if p.ndim == 2]
        others = [p for p in self.model.parameters() if p.ndim != 2 or p is self.model.model.embed_tokens.weight]
        self._optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(matrices, lr=plan.matrix_rate, weight_decay=plan.matrix_decay, momentum=0.95),
            torch.optim.AdamW(others, lr=plan.other_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
        ]
        self._rates = [plan.matrix_rate, plan.other_rate]
        self.steps = 0
        self.tokens = 0
        self.minutes = 0.0

    @property
    def progress(self) -> float:
        """From 0 to 1: the share of the time, or of the steps where those end first, that is used up."""
        by_steps = self.steps / self.plan.max_steps if self.plan.max_steps else 0.0
        return min(1.0, max(self.minutes / self.plan.max_minutes, by_steps))

    def step(self, sampler: Sampler) -> float:
        """One optimizer step; returns the mean training loss in nats per token."""
        length = self.plan.long_length if self.progress >= _LONG_FROM else self.plan.length
        rows = max(1, self.plan.micro_batch_tokens // length)
        parts = max(1, self.plan.step_tokens // (rows * length))
        total = 0.0
        for _ in range(parts):
            loss = self._loss(sampler.batch(rows, length)) / parts
            torch.autograd.backward(loss)
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, rate in zip(self._optimizers, self._rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * _rate_factor(self.progress)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.steps += 1
        self.tokens += parts * rows * length
        return total

    def _loss(self, windows: Tensor) -> Tensor:
        inputs, following = windows[:, :-1], windows[:, 1:]
        with torch.autocast("cpu", torch.bfloat16, enabled=self.plan.bf16):
            logits = self.model(inputs).flatten(0, 1)
            if self.teacher is not None:
                with torch.no_grad():
                    taught = self.teacher(inputs).flatten(0, 1)
        if self.teacher is not None:
            return F.cross_entropy(logits.float(), torch.softmax(taught.float(), -1))
        return F.cross_entropy(logits.float(), following.flatten())

    def save_state(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "progress": (self.steps, self.tokens, self.minutes),
        }
        partial = path.with_name(path.name + ".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def load_state(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.steps, self.tokens, self.minutes = state["progress"]


def _rate_factor(progress: float) -> float:
    """Warm-up, a plateau, then linear to zero."""
    return min(1.0, (progress + 1e-4) / _WARM_UP, (1.0 - progress) / (1.0 - _DECAY_FROM))


@torch.no_grad()
def mean_loss(model: Decoder, windows: Tensor, bf16: bool = False) -> float:
    """Nats per token over (rows, length + 1) windows."""
    total = 0.0
    for row in windows:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(row[None, :-1])
        total += F.cross_entropy(logits[0].float(), row[1:]).item()
    return total / len(windows)


def train(
    plan: Plan,
    corpus: Corpus,
    tokenizer: Tokenizer,
    destination: Path,
    *,
    state: Path | None = None,
    teacher: Decoder | None = None,
    start: Decoder | None = None,
    provenance: dict[str, Any] | None = None,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Trains to the end of the plan's time, writing `destination` every few minutes; returns the training record.

    `state` is a file to resume from, `start` a model of the same shape to begin with, `teacher` what a draft imitates;
    `provenance` is added to the record.
    """
    run = Run(plan, teacher)
    if start is not None:
        run.model.load_state_dict(start.state_dict())
    if state is not None and state.exists():
        run.load_state(state)
        report(f"resumed at step {run.steps}, {run.minutes:.1f} min")
    # A resumed run draws other windows than its first part did.
    sampler = Sampler(corpus.training, tokenizer, plan.seed + run.steps)
    watched = Sampler(corpus.held_out, tokenizer, plan.seed).batch(16, plan.length)
    minutes_before, started = run.minutes, time.monotonic()
    saved_at = reported_at = run.minutes
    smooth: float | None = None

    def record() -> dict[str, Any]:
        return {
            "plan": asdict(plan),
            "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
            "steps": run.steps,
            "tokens": run.tokens,
            "wall_minutes": round(run.minutes, 2),
            "threads": torch.get_num_threads(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "corpus_sha256": corpus.sha256,
            "corpus_tokens": sampler.tokens,
            "finished": run.progress >= 1.0,
            **(provenance or {}),
        }

    while run.progress < 1.0:
        loss = run.step(sampler)
        smooth = loss if smooth is None else 0.95 * smooth + 0.05 * loss
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss became {loss} at step {run.steps}; lower the rates or switch bf16 off")
        run.minutes = minutes_before + (time.monotonic() - started) / 60
        if run.minutes - reported_at >= 1.0 or run.steps in (1, 20, 60):
            reported_at = run.minutes
            held_out = mean_loss(run.model, watched, plan.bf16)
            speed = run.tokens / (60 * run.minutes)
            report(
                f"{run.minutes:6.1f} min step {run.steps} loss {smooth:.3f} held out {held_out:.3f} {speed:.0f} tok/s"
            )
        if run.minutes - saved_at >= plan.checkpoint_minutes:
            saved_at = run.minutes
            model_folder.write(destination, run.model, tokenizer, record())
            if state is not None:
                run.save_state(state)
    model_folder.write(destination, run.model, tokenizer, record())
    return record()

"""`python -m agents.engine.loading.format_quality --model DIR`: what weight formats cost in quality and give in speed.

Quality is measured on held-out text against the unquantized model of the same dtype: the mean Kullback-Leibler
divergence of next-token distributions in nats, how often the likeliest next token is the same, and the loss (mean
negative log-likelihood of the true next token, nats). Speed is a decode step's time, the formats taking turns.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from agents.engine.loading.loading import load_decoder
from agents.engine.loading.passage import encode, logits
from agents.engine.loading.texts import held_out_texts
from agents.engine.model.config import read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.device import choose_device, wait_for
from agents.engine.model.runner import Rows, Runner
from agents.engine.ops.ops_choice import choose_ops
from agents.engine.text.tokenizer import TextCodec
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import Quantization

_CONTEXT = 128


@dataclass(frozen=True)
class Quality:
    """divergence and loss in nats a token; agreement: a share; tokens: how many positions were compared."""

    divergence: float
    agreement: float
    loss: float
    tokens: int


def load(
    model_dir: Path, quantization: Quantization, dtype: torch.dtype, kernels: str = "auto", device: str = "cpu"
) -> Decoder:
    """A decoder. device: cpu or cuda."""
    chosen = choose_device(device)
    ops = choose_ops(chosen, dtype, kernels).ops
    config = read_model_config(model_dir)
    return load_decoder(model_dir, config, quantization, dtype, ops, chosen, 1024, kernels)


def compare(reference: Decoder, other: Decoder, passages: list[list[int]]) -> Quality:
    """The other's quality against the reference on passages of tokens."""
    sums = torch.zeros(3, dtype=torch.float64, device=reference.device)
    positions = 0
    for tokens in passages:
        exact = logits(reference, tokens)[:-1].log_softmax(dim=-1)
        found = logits(other, tokens)[:-1].log_softmax(dim=-1)
        truth = torch.tensor(tokens[1:], device=reference.device).unsqueeze(1)
        sums += torch.stack(
            (
                (exact.exp() * (exact - found)).sum(),
                (exact.argmax(dim=-1) == found.argmax(dim=-1)).sum(),
                -found.gather(1, truth).sum(),
            )
        ).double()
        positions += len(tokens) - 1
    divergence, agreement, loss = (sums / positions).tolist()
    return Quality(divergence, agreement, loss, positions)


@torch.inference_mode()
def step_times(decoders: dict[str, Decoder], rows: int, repeats: int, prefill: bool = False) -> dict[str, list[float]]:
    """Seconds of forward passes, the decoders taking turns: `rows` sequences that decode one token each behind 128
    tokens, or one prompt of `rows` tokens."""
    batches = {name: _batch(decoder, rows, prefill) for name, decoder in decoders.items()}
    times: dict[str, list[float]] = {name: [] for name in decoders}
    for repeat in range(repeats + 1):
        for name, (runner, batch) in batches.items():
            began = time.perf_counter()
            runner.forward(batch)
            wait_for(runner.decoder.device)
            if repeat:  # The first prepares.
                times[name].append(time.perf_counter() - began)
    return times


def _batch(decoder: Decoder, rows: int, prefill: bool) -> tuple[Runner, list[Rows]]:
    size, groups = 16, len(decoder.config.cache_groups())
    blocks = (rows if prefill else _CONTEXT) // size + 1
    sequences = 1 if prefill else rows
    runner = Runner(decoder, blocks * groups * sequences, size)
    batch = []
    for sequence in range(sequences):
        starts = [1 + (sequence * groups + group) * blocks for group in range(groups)]
        tables = [list(range(start, start + blocks)) for start in starts]
        tokens = [5 + sequence] if not prefill else [5 + place % 100 for place in range(rows)]
        batch.append(Rows(tokens, 0 if prefill else _CONTEXT, tables, 1))
    return runner, batch


def main() -> None:
    """Prints two Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=384, help="of each held-out text")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--formats", nargs="+", default=[own.value for own in Quantization], help="besides none")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    began = time.monotonic()
    decoders = {}
    for format_ in Quantization:
        if format_ is not Quantization.NONE and format_.value not in asked.formats:
            continue
        decoders[format_.value] = load(asked.model, format_, getattr(torch, asked.dtype), device=asked.device)
        _say(f"loaded {format_.value}: {time.monotonic() - began:.1f} s since start")
    plain = decoders[Quantization.NONE.value]
    _say(f"\n{asked.model.name}, {asked.dtype}, {asked.device}, {asked.threads} threads\n")
    try:
        codec = TextCodec(asked.model)
    except BadRequest as error:
        _say(f"quality is not measured: {error.message}")
    else:
        passages = encode(codec, plain, held_out_texts(), asked.tokens)
        _say("| format | KL (nats) | top-1 agreement | loss (nats) |\n|---|---|---|---|")
        for name, decoder in decoders.items():
            quality = compare(plain, decoder, passages)
            _say(f"| {name} | {quality.divergence:.4f} | {quality.agreement:.3f} | {quality.loss:.3f} |")
    _say("\n| format | 1 | 4 | 16 | 64 | prompt of 512 |\n|---|---|---|---|---|---|")
    fastest: dict[str, list[float]] = {name: [] for name in decoders}
    for rows, prefill in ((1, False), (4, False), (16, False), (64, False), (512, True)):
        for name, times in step_times(decoders, rows, asked.repeats, prefill).items():
            fastest[name].append(min(times))
    for name, own in fastest.items():
        ratios = [f"{base / mine:.2f} ({mine * 1e3:.1f} ms)" for base, mine in zip(fastest["none"], own, strict=True)]
        _say(f"| {name} | {' | '.join(ratios)} |")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

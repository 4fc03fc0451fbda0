"""`python -m agents.engine`: the engine's server alone, without the `tailwright` command."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from agents.engine.options import DEVICES, DTYPES, KERNELS, EngineOptions, SpeculativeMethod
from agents.engine.scheduling.policy import SchedulingPolicy
from agents.engine.server.app import serve
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import Quantization, parse_config


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 2 with a message on standard error for what the user got wrong."""
    asked = _parser().parse_args(arguments)
    try:
        config = parse_config(dict(_setting(text) for text in asked.set))
        values = {name: value for name, value in vars(asked).items() if name != "set"}
        serve(EngineOptions(**values, config=config))
    except BadRequest as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agents.engine", description=__doc__)
    parser.add_argument(
        "--model",
        dest="model_dir",
        type=Path,
        required=True,
        help="Hugging Face folder: Llama, Qwen2, Qwen3 or Gemma 3",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=7400)
    parser.add_argument("--served-model-name", help="default: the folder's name")
    parser.add_argument("--draft-model", dest="draft_model_dir", type=Path)
    parser.add_argument("--speculative-method", choices=tuple(SpeculativeMethod), default=SpeculativeMethod.NGRAM)
    parser.add_argument("--early-exit-layer", type=int, help="layers that draft with early_exit; default: a third")
    parser.add_argument(
        "--speculation-gate",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether requests for which drafting loses are left without drafts",
    )
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="auto: CUDA where there is one")
    parser.add_argument(
        "--kernels", choices=KERNELS, default="auto", help="auto: native where they can be built, else torch"
    )
    parser.add_argument("--kv-cache-bytes", type=int, default=256 * 2**20)
    parser.add_argument("--block-size", type=int, default=16, help="tokens per cache block")
    parser.add_argument("--max-model-len", type=int, help="tokens; default: the model's own")
    parser.add_argument("--num-threads", type=int, default=1)
    parser.add_argument("--max-waiting", type=int, default=1024, help="waiting requests above which new ones get 429")
    parser.add_argument("--max-waiting-tokens", type=int, help="waiting tokens above which new requests get 429")
    parser.add_argument("--default-timeout-s", type=float, help="seconds for a request that names no timeout_s")
    parser.add_argument("--scheduling-policy", choices=tuple(SchedulingPolicy), default=SchedulingPolicy.FCFS)
    parser.add_argument(
        "--priority-aging-s", type=float, default=10.0, help="seconds of waiting that are worth one level of priority"
    )
    parser.add_argument(
        "--long-prompt-threshold", type=int, default=0, help="tokens above which a prompt has its own lane; 0: none"
    )
    parser.add_argument("--max-long-prefills", type=int, default=1, help="long prompts that are computed at once")
    parser.add_argument(
        "--long-prefill-share", type=float, default=0.5, help="most of a step's budget for them beside other work"
    )
    parser.add_argument(
        "--long-patience-s", type=float, default=5.0, help="short prompts that come so much later may pass a long one"
    )
    parser.add_argument(
        "--itl-target-s", type=float, help="adjust prompt tokens per step so that 99%% of token gaps are at most this"
    )
    parser.add_argument(
        "--quantizations",
        type=lambda text: tuple(text.split(",")),
        default=tuple(format_.value for format_ in Quantization),
        help="weight formats that the knob may be set to, separated by commas; default: all",
    )
    parser.add_argument(
        "--prefix-caching",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="reuse what equal starts of prompts computed",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="a knob's first value")
    return parser


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadRequest(f"--set {text}: wants knob=value", field="set")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


if __name__ == "__main__":
    sys.exit(main())

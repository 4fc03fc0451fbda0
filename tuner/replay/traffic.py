"""The load generator as a process: `python -m tuner.replay.traffic --target URL --model NAME --rate R --seed S`.

Guarantee: one JSON line of progress each second on standard output. The control file, looked at twice a second, holds
JSON such as {"rate": 6.0, "paused": false}; it may appear, change and vanish at any time. SIGTERM and SIGINT stop it:
no new requests, those in flight get `--drain` seconds to end, one last line with "stopped": true, exit status 0.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from controlplane.contract.errors import Unavailable
from tuner.replay.load_generator import Traffic
from tuner.workload.corpus import engine_tokenizer, read_tokens
from tuner.workload.generate import SHAPES, fitted

_CONTROL_POLL_S = 0.5


def _print(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


def _changed(control: Path, seen: str) -> str | None:
    """The control file's text, None when it is as it was, or not there."""
    try:
        text = control.read_text()
    except OSError:
        return None
    return None if text == seen else text


async def _follow(traffic: Traffic, control: Path | None) -> None:
    """Print progress each second, and obey the control file."""
    seen = ""
    printed = 0.0
    while True:
        text = None if control is None else _changed(control, seen)
        if text is not None:
            # A half-written file is read again at the next look.
            with contextlib.suppress(ValueError, TypeError, AttributeError):
                traffic.control(json.loads(text))
                seen = text
        if time.perf_counter() - printed >= 0.99:
            printed = time.perf_counter()
            _print(traffic.progress())
        await asyncio.sleep(_CONTROL_POLL_S)


def _corpus(targets: Sequence[str], tokens: int, wait_s: float) -> list[int]:
    """From the first target that answers; tries for `wait_s`, since engines take a while to start."""
    until = time.monotonic() + wait_s
    while True:
        for url in targets:
            try:
                return read_tokens(engine_tokenizer(url), tokens)
            except Unavailable as error:
                if time.monotonic() > until:
                    raise SystemExit(f"traffic: {error.message}") from error
        time.sleep(0.5)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tuner.replay.traffic", description="Endless seeded traffic.")
    parser.add_argument("--target", action="append", required=True, help="base URL of an engine; may be repeated")
    parser.add_argument("--model", required=True, help="model name to ask for")
    parser.add_argument("--rate", type=float, default=2.0, help="requests per second over all targets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="conv")
    parser.add_argument("--arrival-cv", type=float, help="coefficient of variation of the gaps between arrivals")
    parser.add_argument("--max-input", type=int, default=768, help="longest prompt, tokens")
    parser.add_argument("--max-output", type=int, default=64, help="longest answer, tokens")
    parser.add_argument("--control-file", type=Path, help='JSON, for example {"rate": 6.0, "paused": false}')
    parser.add_argument("--corpus-tokens", type=int, default=60_000)
    parser.add_argument("--wait", type=float, default=60.0, help="seconds to wait for an engine to answer")
    parser.add_argument("--duration", type=float, help="seconds after which to stop; endless without")
    parser.add_argument("--drain", type=float, default=10.0, help="seconds for requests in flight at the end")
    return parser.parse_args(argv)


async def _main(arguments: argparse.Namespace) -> None:
    shape = fitted(SHAPES[arguments.shape], max_input=arguments.max_input, max_output=arguments.max_output)
    if arguments.arrival_cv is not None:
        shape = replace(shape, arrival_cv=arguments.arrival_cv)
    corpus = await asyncio.to_thread(_corpus, arguments.target, arguments.corpus_tokens, arguments.wait)
    traffic = Traffic(
        arguments.target, model=arguments.model, corpus=corpus, shape=shape, rate=arguments.rate, seed=arguments.seed
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, traffic.stop)
    if arguments.duration is not None:
        loop.call_later(arguments.duration, traffic.stop)
    following = asyncio.create_task(_follow(traffic, arguments.control_file))
    await traffic.run(drain_s=arguments.drain)
    following.cancel()
    _print({**traffic.progress(), "stopped": True})


if __name__ == "__main__":
    asyncio.run(_main(_arguments(None)))

"""vLLM in its own interpreter, in process and stepped by hand, with Tailwright's plugin in it, over a clock of its own.

All that vLLM asks a clock is answered with `Clock`, which moves with the processor time of its steps alone: other work
on the machine changes little. What is told is what the plugin made of vLLM's statistics, its ring read where it is.
The knob file is the plugin's, and the answer says what the scheduler runs.
"""

import heapq
import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.engine_rivals import protocol

RECEIVE_S = 0.003
SETTLE_S, LOOK_S = 20.0, 0.02
NGRAM = {"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 2}


class Clock:
    """Seconds since the epoch; it stands still but within `run`, there it goes `pace` times as fast as the processor
    time of the thread that made it."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self._cpu = time.pthread_getcpuclockid(threading.get_ident())
        self._began_s: float | None = None
        self._pace = 1.0

    def __call__(self) -> float:
        if self._began_s is None:
            return self.now_s
        return self.now_s + self._pace * (time.clock_gettime(self._cpu) - self._began_s)

    def run(self, work: Any, pace: float) -> None:
        self._pace, self._began_s = pace, time.clock_gettime(self._cpu)
        try:
            work()
        finally:
            self.now_s = self()
            self._began_s = None


class Engine:
    """coming: (when it is handed to vLLM, its number, what it is). What is told of before `began_s` is another fault's,
    or of warming up, which had another clock: steps are told a second or two after they were counted."""

    def __init__(self, engine: Any, folder: Path, clock: Clock, ring: Any) -> None:
        self.engine, self.folder, self.clock, self.ring = engine, folder, clock, ring
        self.coming: list[tuple[float, int, dict[str, Any]]] = []
        self.began_s = clock.now_s
        self.told = ring.newest
        self.count = 0
        self.revision = 0


_held: list[Engine] = []


def load(model_dir: str, folder: str, started: dict[str, Any], drafts: int, now_s: float) -> dict[str, Any]:
    os.environ["TAILWRIGHT_VLLM_DIR"] = folder
    import vllm
    from tailwright_vllm.feed import shared_feed
    from tailwright_vllm.stat_logger import TailwrightStatLogger
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    logging.getLogger("vllm").setLevel(logging.WARNING)
    arguments = EngineArgs(
        model=model_dir,
        dtype="float32",
        enforce_eager=True,
        seed=0,
        scheduler_cls="tailwright_vllm.scheduler.live_scheduler",
        speculative_config={**NGRAM, "num_speculative_tokens": drafts},
        disable_log_stats=False,
        **started,
    )
    engine = LLMEngine.from_engine_args(arguments, stat_loggers=[TailwrightStatLogger])
    _warm_up(engine)
    clock = Clock(now_s)
    time.time = time.monotonic = clock
    ring = shared_feed(Path(folder), model_dir).ring
    _held.append(Engine(engine, Path(folder), clock, ring))
    return {"version": vllm.__version__}


def _warm_up(engine: Any) -> None:
    """What is compiled or thought out at its first use is no step's work: prompts of each size, drafts, sampling."""
    for number, (tokens, temperature) in enumerate(((900, 0.0), (300, 0.0), (40, 0.0), (40, 1.0), (40, 0.0))):
        prompt = [10 + place % 20 for place in range(tokens)]
        one = {"at_s": None, "tokens": prompt, "outputs": 40, "temperature": temperature}
        _add(engine, -1 - number, one)
    while engine.has_unfinished_requests():
        engine.step()


def window(
    until_s: float, asked: list[dict[str, Any]], pace: float, revision: int, knobs: dict[str, Any]
) -> dict[str, Any]:
    """Serve until the clock says so. asked: requests with `at_s`, `tokens`, `outputs`, `temperature`."""
    (held,) = _held
    engine, clock, coming = held.engine, held.clock, held.coming
    _want(held, revision, knobs)
    for one in asked:
        held.count += 1
        heapq.heappush(coming, (one["at_s"] + RECEIVE_S, held.count, one))
    while clock.now_s < until_s:
        if not engine.has_unfinished_requests():
            if not coming or coming[0][0] >= until_s:
                break
            clock.now_s = max(clock.now_s, coming[0][0])
        while coming and coming[0][0] <= clock.now_s:
            _add(engine, *heapq.heappop(coming)[1:])
        clock.run(engine.step, pace)
    return {"events": _events(held), "unfinished": engine.get_num_unfinished_requests(), "now_s": clock.now_s}


def drop(revision: int, knobs: dict[str, Any]) -> dict[str, Any]:
    """Whatever is being served is given up, the cache is empty, the knobs are these; what the scheduler runs then."""
    (held,) = _held
    held.coming.clear()
    _want(held, revision, knobs)
    held.engine.abort_request(list(held.engine.output_processor.request_states), internal=True)
    while held.engine.has_unfinished_requests():
        held.clock.run(held.engine.step, 1.0)
    held.engine.reset_prefix_cache()
    held.began_s = held.clock.now_s
    _events(held)
    return {"now_s": held.clock.now_s}


def effective(revision: int) -> dict[str, Any]:
    """What the scheduler says it runs, once it has taken up this revision."""
    (held,) = _held
    deadline_s = _real_s() + SETTLE_S
    while True:
        told: dict[str, Any] = json.loads((held.folder / "effective.json").read_bytes())
        if told["revision"] == revision or _real_s() > deadline_s:
            return told
        threading.Event().wait(LOOK_S)


def _real_s() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def _want(held: Engine, revision: int, knobs: dict[str, Any]) -> None:
    if revision == held.revision:
        return
    scratch = held.folder / ".knobs"
    scratch.write_text(json.dumps({"revision": revision, "knobs": knobs, "asked": held.clock.now_s}))
    os.replace(scratch, held.folder / "knobs.json")
    held.revision = revision


def _add(engine: Any, number: int, one: dict[str, Any]) -> None:
    from vllm import SamplingParams

    # No seed of their own: on a CPU vLLM 0.32 cannot verify drafts with one ("CPU Generator does not use offset").
    params = SamplingParams(
        temperature=one["temperature"], max_tokens=one["outputs"], ignore_eos=True, detokenize=False
    )
    engine.add_request(str(number), {"prompt_token_ids": one["tokens"]}, params, arrival_time=one["at_s"])


def _events(held: Engine) -> list[dict[str, Any]]:
    from tailwright_vllm.records import events_of

    found = []
    while due := [one for one in held.ring.after(held.told) if one.first > held.told]:
        for first, record, _ in due:
            told = events_of(first, record, held.revision)
            found += [event for event in told if event["time"] >= held.began_s]
            held.told = first + record.events - 1
    return found


if __name__ == "__main__":
    protocol.answer_requests({"load": load, "window": window, "drop": drop, "effective": effective})

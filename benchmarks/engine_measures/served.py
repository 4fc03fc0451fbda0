"""The highest request rate at which TTFT and ITL hold an objective, through HTTP, against `vllm serve`."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine_measures.rate_search import RateSearch
from benchmarks.engine_measures.report import figure, heading, note, progress, ratio, skipped, spread, table
from benchmarks.engine_measures.session import Session
from benchmarks.engine_measures.stats import paired_ratio, quantile, summarize
from benchmarks.engine_measures.texts import Pieces
from benchmarks.engine_measures.traffic import Shape, mixture, recorded
from benchmarks.engine_rivals.load_generator import sent_beside
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.engine_rivals.servers import HOST, MODEL, Server, free_port
from benchmarks.engine_rivals.vllm_environment import server_environment

_MOST_LEN = 2048
_MOST_SEQS = 32
_COARSE_STRIDE = 4
_MOST_REQUESTS = 4000
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Objective:
    """ttft_s at the 95th, itl_s at the 99th percentile; budget: tokens of a step; first_rate: the first try."""

    ttft_s: float
    itl_s: float
    budget: int
    first_rate: float


SMALL = Objective(0.15, 0.03, 256, 30.0)
LARGE = Objective(1.0, 0.2, 128, 2.0)


@dataclass(frozen=True)
class Trial:
    ttft_p95_s: float
    itl_p99_s: float
    requests: int
    failed: int
    client_cores: float
    late_s: float

    def holds(self, objective: Objective) -> bool:
        return not self.failed and self.ttft_p95_s <= objective.ttft_s and self.itl_p99_s <= objective.itl_s


def measure(session: Session) -> None:
    heading("Served load at an objective, through HTTP")
    objective = SMALL if session.is_small else LARGE
    settings = session.settings
    seconds = _seconds(session)
    traffic = (
        f"the trace {settings.trace.name}, lengths cut to 16 to 1200 and 8 to 96 tokens"
        if settings.trace
        else "Poisson arrivals; three quarters of the prompts short (lognormal around 64 tokens), a quarter long "
        "(around 400), outputs around 32 tokens (8 to 96)"
    )
    note(
        f"Objective: TTFT p95 at most {1000 * objective.ttft_s:g} ms and ITL p99 at most {1000 * objective.itl_s:g} "
        f"ms, no request failed; {traffic}. Both: bfloat16, {settings.threads} threads, {objective.budget} tokens a "
        f"step, at most {_MOST_SEQS} requests at once, 1 GiB of KV cache. One trial: {seconds:g} s of arrivals. In "
        f"each of {session.rounds} rounds (own seed, the same traffic for both, other prompts each trial) the highest "
        "rate on a ladder of 10 % steps that holds, with the next step failing; the other server is held still "
        "meanwhile."
    )
    servers = _start(session, objective)
    if "ours" not in servers:
        return
    try:
        _compare(session, objective, servers)
    finally:
        for server in servers.values():
            server.stop()


def _start(session: Session, objective: Objective) -> dict[str, Server]:
    """Both at once, held as soon as they are healthy."""
    settings = session.settings
    wanted = {"ours": _our_server(session, objective)}
    if settings.vllm_python is None:
        skipped("vLLM's server", "no interpreter: give --vllm-python or set TAILWRIGHT_VLLM_PYTHON")
    else:
        wanted["vLLM"] = _vllm_server(session, objective, settings.vllm_python)
    for name in list(wanted):
        progress(f"waiting for {name}'s server")
        try:
            wanted[name].wait_healthy()
            wanted[name].hold()
        except WorkerFailed as error:
            skipped(f"{name}'s server", str(error))
            wanted.pop(name).stop()
    if "ours" not in wanted:
        for server in wanted.values():
            server.stop()
    return wanted


def _our_server(session: Session, objective: Objective) -> Server:
    port = free_port()
    knobs = {"max_num_batched_tokens": objective.budget, "max_num_seqs": _MOST_SEQS}
    command = [sys.executable, "-m", "agents.engine", "--model", str(session.model_dir), "--port", str(port)]
    command += ["--served-model-name", MODEL, "--dtype", "bfloat16", "--threads", str(session.settings.threads)]
    command += ["--max-model-len", str(_MOST_LEN), "--kv-cache-memory-bytes", "1G"]
    command += [part for knob, value in knobs.items() for part in ("--set", f"{knob}={value}")]
    env = {"OMP_NUM_THREADS": str(session.settings.threads)}
    return Server("ours", command, env, session.settings.cores, port)


def _vllm_server(session: Session, objective: Objective, python: str) -> Server:
    port = free_port()
    # Not resolved: a virtual environment's interpreter is a link.
    command = [str(Path(python).absolute().parent / "vllm"), "serve", str(session.model_dir), "--port", str(port)]
    command += ["--host", HOST, "--served-model-name", MODEL, "--dtype", "bfloat16", "--enforce-eager"]
    command += ["--max-model-len", str(_MOST_LEN), "--max-num-batched-tokens", str(objective.budget)]
    command += ["--max-num-seqs", str(_MOST_SEQS), "--disable-uvicorn-access-log"]
    cores = session.settings.cores
    env = {"OMP_NUM_THREADS": str(session.settings.threads), **server_environment(python, cores)}
    return Server("vLLM", command, env, cores, port)


def _compare(session: Session, objective: Objective, servers: dict[str, Server]) -> None:
    pieces = session.texts.code("served")
    for name, server in servers.items():
        told = _trial(session, server, _shapes(session, -2, 200), objective.first_rate, 4.0, pieces)
        progress(f"{name} warmed up: {told}")
    rungs: dict[str, int] = {}
    found: dict[str, list[float]] = {name: [] for name in servers}
    at_answer: dict[str, list[Trial]] = {name: [] for name in servers}
    for number in range(-1, session.rounds):
        # The round before the first finds the region, in larger steps.
        shapes = _shapes(session, number, _MOST_REQUESTS)
        searches = {
            name: RateSearch(objective.first_rate, rung=rungs.get(name, 0), stride=_COARSE_STRIDE if number < 0 else 1)
            for name in servers
        }
        trials: dict[tuple[str, int], Trial] = {}
        while any(search.rung is not None for search in searches.values()):
            for name, search in searches.items():
                if (rung := search.rung) is None:
                    continue
                rate = search.rate(rung)
                told = _trial(session, servers[name], shapes, rate, _seconds(session), pieces)
                trials[name, rung] = told
                search.report(told.holds(objective))
                if len(search.held) >= (3 if session.settings.quick else 9):
                    search.rung = None
                progress(
                    f"served round {number + 1} of {session.rounds}: {name} at {figure(rate)}/s: TTFT p95 "
                    f"{1000 * told.ttft_p95_s:.0f} ms, ITL p99 {1000 * told.itl_p99_s:.0f} ms, failed {told.failed} of "
                    f"{told.requests}, client {told.client_cores:.2f} cores, late {1000 * told.late_s:.0f} ms"
                )
        for name, search in searches.items():
            answer = search.answer_rung
            rungs[name] = answer if answer is not None else min(search.held)
            if number >= 0:
                found[name].append(search.rate(answer) if answer is not None else 0.0)
                if answer is not None:
                    at_answer[name].append(trials[name, answer])
    _print(found, at_answer)


def _print(found: dict[str, list[float]], at_answer: dict[str, list[Trial]]) -> None:
    rows = []
    for name, rates in found.items():
        rows.append(
            [
                name,
                spread(summarize(rates)),
                "" if name == "ours" or not all(rates) else ratio(paired_ratio(found["ours"], rates)),
                *_at_answer(at_answer[name]),
            ]
        )
    table(["", "requests/s", "x", "TTFT p95 there, ms", "ITL p99 there, ms", "client, cores"], rows)


def _seconds(session: Session) -> float:
    """Arrivals of a trial: a quick model gets as many requests in half the time, and more."""
    return session.settings.served_seconds / (2 if session.is_small else 1)


def _at_answer(trials: list[Trial]) -> list[str]:
    if not trials:
        return ["-", "-", "-"]
    return [
        figure(1000 * summarize([trial.ttft_p95_s for trial in trials]).median),
        figure(1000 * summarize([trial.itl_p99_s for trial in trials]).median),
        f"{summarize([trial.client_cores for trial in trials]).median:.2f}",
    ]


def _shapes(session: Session, number: int, count: int) -> list[Shape]:
    seed = f"{session.settings.seed}:served:{number}"
    trace = session.settings.trace
    return recorded(trace, seed, count) if trace else mixture(seed, count)


def _trial(session: Session, server: Server, shapes: list[Shape], rate: float, seconds: float, pieces: Pieces) -> Trial:
    """Resume the server, send the arrivals of so many seconds at this rate, wait for the last answer, hold it again."""
    asked = [
        {
            "at_s": shape.at / rate,
            "prompt": pieces.take(shape.prompt_tokens),
            "max_tokens": shape.max_tokens,
        }
        for shape in shapes
        if shape.at / rate <= seconds
    ]
    plan = {"host": HOST, "port": server.port, "model": MODEL, "timeout_s": _TIMEOUT_S, "requests": asked}
    server.resume()
    try:
        told = sent_beside(plan)
    except subprocess.CalledProcessError as error:
        raise WorkerFailed(f"the load generator ended with {error.returncode}") from error
    finally:
        server.hold()
    stories = told["requests"]
    fine = [one for one in stories if one["error"] is None and one["ttft_s"] is not None]
    for one in [one for one in stories if one["error"] is not None][:1]:
        progress(f"{server.name}: a request failed: {one['error']}")
    wall_s = max(
        (one["e2e_s"] + start["at_s"] for one, start in zip(stories, asked, strict=True) if one["e2e_s"]), default=1.0
    )
    return Trial(
        ttft_p95_s=quantile([one["ttft_s"] for one in fine], 0.95) if fine else float("inf"),
        itl_p99_s=quantile([gap for one in fine for gap in one["gaps_s"]], 0.99) if fine else float("inf"),
        requests=len(stories),
        failed=len(stories) - len(fine),
        client_cores=told["cpu_s"] / wall_s,
        late_s=told["late_s"],
    )

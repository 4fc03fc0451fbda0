"""What may die or go wrong beside a serving vLLM, and that it serves on with the limits it had."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.vllm_measures.knobs import BASE, differences, give
from benchmarks.vllm_measures.plane import attached, is_up
from benchmarks.vllm_measures.session import Attached, Session
from benchmarks.vllm_measures.traffic.background import load
from benchmarks.vllm_measures.traffic.clients import requests
from benchmarks.vllm_measures.traffic.shapes import mixed

_KNOBS: dict[str, Any] = {**BASE, "max_num_batched_tokens": 256, "prefill_chunk_size": 64, "max_num_seqs": 8}
_OTHER: dict[str, Any] = {**_KNOBS, "max_num_seqs": 12}
_LASTS_S = 2.0
_BACK_LIMIT_S = 15.0
_HUGE_BYTES = 64 * 2**20

GARBAGE: dict[str, bytes] = {
    "binary": bytes(range(256)) * 16,
    "empty": b"",
    "half a file": b'{"revision": 9, "knobs": {"max_num_seqs": 1',
    "no object": b"[1, 2, 3]",
    "wrong types": b'{"revision": "x", "knobs": {"max_num_seqs": "many", "prefill_chunk_size": null}}',
    "impossible values": b'{"revision": 9, "knobs": {"max_num_seqs": 0, "max_num_batched_tokens": -5}}',
    "unknown knob": b'{"revision": 9, "knobs": {"max_num_seqs": 1, "speed": 11}}',
    "not a number": b'{"revision": 9, "knobs": {"max_num_seqs": NaN}}',
    "deeply nested": b'{"knobs":' + b"[" * 20_000,
}
"""Contents of the knob file that must change nothing. A huge one is written apart."""


@dataclass(frozen=True)
class Fault:
    """`act` does the harm and returns what is worth telling beside whether vLLM served on and kept its limits."""

    name: str
    act: Callable[[Session, Attached], str]


def measure(session: Session) -> None:
    heading("What dies or breaks beside vLLM")
    here = session.attached
    prompts = requests(session.texts.code("faults"), mixed(f"{session.settings.seed}:faults", 150))
    before = here.server.child.pids()
    give(session.plane, here, BASE)
    give(session.plane, here, _KNOBS)
    good = _file(here).read_bytes()
    rows = []
    whole = True
    for fault in _faults():
        with load(session, here.server.port, prompts) as outcome:
            time.sleep(0.5)
            told = fault.act(session, here)
            time.sleep(_LASTS_S)
            served = here.server.child.is_alive and here.server.child.pids() == before
        # Where nothing tells any more, the limits are not known; the change after it shows whether they move.
        other = differences(told_limits, _KNOBS) if (told_limits := here.server.effective()) else {}
        _restore(here, good)
        fine = served and not outcome.served.failed and not other and "CHANGED" not in told
        whole = whole and fine
        rows.append([fault.name, outcome.served.summary, _limits(told_limits, other), told.replace("|", "/")])
        progress(f"faults: {fault.name}: failed {outcome.served.summary}, other limits {other}, {told}")
        if not here.server.child.is_alive:
            raise WorkerFailed(f"vLLM died of: {fault.name}; its log ends:\n{here.server.child.log_end()}")
    note(
        f"Each under load from half a second before until {_LASTS_S:g} s after. Limits: what the scheduler says it "
        "runs after it, against what it ran before. Afterwards: what was seen once the fault was over."
    )
    table(["fault", "failed requests", "limits in force", "afterwards"], rows)
    note(f"Goal: vLLM serves on, the last good limits stay: **{'reached' if whole else 'NOT reached'}**.")


def _limits(told: dict[str, Any], other: dict[str, Any]) -> str:
    if not told:
        return "not told any more"
    return f"CHANGED: {other}" if other else "unchanged"


def _faults() -> list[Fault]:
    return [
        Fault("agent killed (SIGKILL)", _kill_agent),
        Fault("the plugin's socket removed", _remove_socket),
        *(Fault(f"knob file: {name}", _garbage(content)) for name, content in GARBAGE.items()),
        Fault(f"knob file: {_HUGE_BYTES // 2**20} MiB of noise", _huge),
        Fault("knob file: a folder", _folder),
        Fault("the shared folder removed", _remove_share),
    ]


def _share(here: Attached) -> Path:
    assert here.server.share is not None
    return here.server.share


def _file(here: Attached) -> Path:
    return _share(here) / "knobs.json"


def _restore(here: Attached, good: bytes) -> None:
    """The good file again, and no error told any more, so that the next fault's own is seen."""
    if not _share(here).exists():
        return
    _replace(_file(here), good)
    until = time.monotonic() + _LASTS_S
    while time.monotonic() < until and here.server.effective().get("error"):
        time.sleep(0.02)


def _kill_agent(session: Session, here: Attached) -> str:
    """Dead for a while, then started again on its old state."""
    here.agent.kill()
    time.sleep(_LASTS_S)
    other = differences(here.server.effective(), _KNOBS)
    meanwhile = f"limits CHANGED meanwhile: {other}; " if other else "limits kept meanwhile; "
    session.stop(here.agent)
    here.agent = session.plane.agent(here.node, attached(here.server.url, here.server.share), restarted=True)
    began = time.monotonic()
    session.plane.await_node(here.node, here.agent, is_up)
    return f"{meanwhile}a new agent has the node back after {time.monotonic() - began:.1f} s{_moves(session, here)}"


def _remove_socket(session: Session, here: Attached) -> str:
    socket = _share(here) / "events.sock"
    socket.unlink()
    return f"{_back(socket)}{_moves(session, here)}"


def _garbage(content: bytes) -> Callable[[Session, Attached], str]:
    def act(session: Session, here: Attached) -> str:
        _replace(_file(here), content)
        return _told_error(here)

    return act


def _huge(session: Session, here: Attached) -> str:
    _replace(_file(here), os.urandom(_HUGE_BYTES))
    return _told_error(here)


def _folder(session: Session, here: Attached) -> str:
    path = _file(here)
    path.unlink(missing_ok=True)
    path.mkdir()
    try:
        return _told_error(here)
    finally:
        path.rmdir()


def _remove_share(session: Session, here: Attached) -> str:
    shutil.rmtree(_share(here))
    return f"{_back(_share(here) / 'effective.json')}{_moves(session, here)}"


def _back(path: Path) -> str:
    """Whether the plugin makes it anew."""
    began = time.monotonic()
    while time.monotonic() - began < _BACK_LIMIT_S:
        if path.exists():
            return f"{path.name} is back after {time.monotonic() - began:.1f} s"
        time.sleep(0.02)
    return f"{path.name} is not back after {_BACK_LIMIT_S:g} s"


def _told_error(here: Attached) -> str:
    """What the scheduler says about the file, waited for a little."""
    until = time.monotonic() + _LASTS_S
    error = ""
    while time.monotonic() < until and not (error := here.server.effective().get("error", "")):
        time.sleep(0.02)
    return f"told: {error[:70]}" if error else "not told"


def _moves(session: Session, here: Attached) -> str:
    """Whether a change still goes through; then back."""
    try:
        give(session.plane, here, _OTHER)
        give(session.plane, here, _KNOBS)
    except WorkerFailed as error:
        progress(str(error))
        return "; NO change goes through"
    return "; changes go through"


def _replace(path: Path, content: bytes) -> None:
    scratch = path.with_name(".garbage")
    scratch.write_bytes(content)
    os.replace(scratch, path)

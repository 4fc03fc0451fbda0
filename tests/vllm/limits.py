"""The live limits of a test's server: written as an agent would, and read as an agent would."""

import contextlib
import itertools
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from tests.processes import wait_for
from tests.vllm.real_vllm import DRAFTS, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, VllmServer

FULL = {
    "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
    "prefill_chunk_size": 0,
    "max_num_seqs": MAX_NUM_SEQS,
    "num_speculative_tokens": DRAFTS,
}
"""The capacity that the servers start with."""
_numbers = itertools.count()


def put(server: VllmServer, content: bytes) -> None:
    """Put this in the place of the knob file, at once."""
    server.folder.mkdir(mode=0o700, exist_ok=True)
    scratch = server.folder / f"knobs.{next(_numbers)}.tmp"
    scratch.write_bytes(content)
    os.replace(scratch, server.folder / "knobs.json")


def ask(server: VllmServer, revision: int, knobs: Mapping[str, Any]) -> None:
    put(server, json.dumps({"revision": revision, "knobs": knobs, "asked": time.time()}).encode())


def told(server: VllmServer) -> dict[str, Any]:
    """What the scheduler says it runs; empty while it says nothing."""
    with contextlib.suppress(OSError):
        return server.read_json("effective.json")
    return {}


def in_force(server: VllmServer, revision: int, knobs: Mapping[str, Any]) -> bool:
    says = told(server)
    return says.get("revision") == revision and knobs.items() <= says["knobs"].items() and not says["error"]


def give(server: VllmServer, knobs: Mapping[str, Any], revision: int) -> None:
    """Ask for it, and wait until it is in force."""
    ask(server, revision, knobs)
    wait_for(f"{dict(knobs)} in force", lambda: in_force(server, revision, knobs))

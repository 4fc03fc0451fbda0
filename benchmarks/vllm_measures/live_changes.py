"""A hundred live changes under load: failures, restarts, and whether a single output is another one."""

import random
import time

from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.vllm_measures.knobs import BASE, drawn, give
from benchmarks.vllm_measures.session import Session
from benchmarks.vllm_measures.traffic.background import CLIENTS, load
from benchmarks.vllm_measures.traffic.clients import Clients, Served, requests
from benchmarks.vllm_measures.traffic.shapes import mixed

_CHANGES, _QUICK_CHANGES = 100, 20
_PROMPTS, _QUICK_PROMPTS = 200, 60
_PAUSE_S = (0.02, 0.25)


def measure(session: Session) -> None:
    heading("A hundred live changes under load")
    here = session.attached
    quick = session.settings.quick
    count = _QUICK_CHANGES if quick else _CHANGES
    number = _QUICK_PROMPTS if quick else _PROMPTS
    seed = f"{session.settings.seed}:changes"
    prompts = requests(session.texts.code(seed), mixed(seed, number))
    give(session.plane, here, BASE)
    plain = []
    for clients in (CLIENTS, 1 + CLIENTS // 2):
        # Twice, differently batched: how often text depends on its batch-mates with no change at all.
        running = Clients(
            session.nursery, here.server.port, prompts, clients=clients, seed=session.settings.seed, total=number
        )
        plain.append(running.wait())
        progress(f"changes: reference with {clients} clients, failed {plain[-1].summary}")
    before = here.server.child.pids()
    rng = random.Random(seed)
    with load(session, here.server.port, prompts) as outcome:
        knobs = BASE
        for _ in range(count):
            time.sleep(rng.uniform(*_PAUSE_S))
            knobs = drawn(rng, knobs)
            give(session.plane, here, knobs)
        give(session.plane, here, BASE)
    changed = outcome.served
    restarted = here.server.child.pids() != before
    expected = texts(plain[0])
    noise, noise_of = differing(expected, plain[1])
    other, other_of = differing(expected, changed)
    note(
        f"{count} changes of all four limits (budget 64 to 1,024 tokens, chunk 0 to 256, 2 to 16 requests, drafts 0 to "
        f"8 or by batch size) while {CLIENTS} clients send {number} prompts again and again, greedy, float32. Texts "
        "are compared with those of a run without changes; a second run without changes, with fewer clients, tells how "
        "often text changes with its batch-mates alone."
    )
    table(
        ["", "requests", "failed", "other texts"],
        [
            ["no changes, other batches", str(len(plain[1].requests)), plain[1].summary, f"{noise} of {noise_of}"],
            [f"{count} changes", str(len(changed.requests)), changed.summary, f"{other} of {other_of}"],
        ],
    )
    reached = not changed.failed and not restarted and not other
    note(
        f"vLLM's processes {'were restarted' if restarted else 'are the same ones'}. Goal 0 failed, 0 restarts, texts "
        f"unchanged: **{'reached' if reached else 'NOT reached'}**."
    )


def texts(served: Served) -> dict[int, str]:
    """The first text of each prompt, by its place in the list."""
    found: dict[int, str] = {}
    for one in served.requests:
        if one["error"] is None:
            found.setdefault(one["index"], one["text"])
    return found


def differing(expected: dict[int, str], served: Served) -> tuple[int, int]:
    """(texts that are not the expected ones, texts compared)."""
    compared = [one for one in served.requests if one["error"] is None and one["index"] in expected]
    return sum(one["text"] != expected[one["index"]] for one in compared), len(compared)

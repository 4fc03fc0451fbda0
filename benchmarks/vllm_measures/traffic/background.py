"""Load that goes on while something is done to the server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.vllm_measures.session import Session
from benchmarks.vllm_measures.traffic.clients import Clients, Served

CLIENTS = 12


class Outcome:
    """`served` is there once the load has ended."""

    served: Served


@contextmanager
def load(
    session: Session, port: int, prompts: Sequence[dict[str, Any]], *, clients: int = CLIENTS, think_s: float = 0.0
) -> Iterator[Outcome]:
    """Clients from entry to exit; at the exit the requests that run are waited for."""
    outcome = Outcome()
    running = Clients(
        session.nursery, port, prompts, clients=clients, seed=session.settings.seed, think_s=think_s, total=None
    )
    try:
        yield outcome
    except BaseException:
        running.end()
        raise
    outcome.served = running.stop()

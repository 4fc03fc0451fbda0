"""An engine for all tests here, and a recorder for each."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator

import pytest
import torch

from agents.client_measure import Recorder
from tests.agents.client_measure.served_engine import PROMPT, WHOLE, ServedEngine, served_engine
from tests.agents.client_measure.tls_proxy import Authority


@pytest.fixture(scope="session")
def engine() -> Iterator[ServedEngine]:
    """Warmed up: a first request compiles what later ones find ready."""
    torch.set_num_threads(1)
    with served_engine() as running:
        import httpx

        body = {"prompt": PROMPT, "max_tokens": 4, **WHOLE}
        httpx.post(f"{running.url}/v1/completions", json=body, timeout=60).raise_for_status()
        yield running


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder("test-client", pool="chat")

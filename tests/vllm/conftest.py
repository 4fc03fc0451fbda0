"""Real vLLM servers for the tests of this folder (`make test-vllm`; each test is marked `vllm`).

  vllm_server     one server for the whole session: bundled model in float32, plugin, drafts, development mode. A test
                  finds its limits at their capacity (tests/vllm/limits.py), whatever an earlier one did.
  spare_server    another one, which a test may restart or end.
  start_vllm      a factory for what needs a server of its own, or cannot spare one: start_vllm(arguments=[...]) gives
                  it healthy; it is stopped when the test ends. Each start costs about a minute of two cores.
  vllm_executable vLLM's own command, for those who start it themselves (node files).

What they give is `tests.vllm.real_vllm.VllmServer`: url, folder (shared with an agent), raw_log, pid, log, complete(),
complete_all(). Without the environment these tests are skipped, or fail where TAILWRIGHT_VLLM_REQUIRED is set, as
`make test-vllm` does.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vllm import limits, real_vllm
from tests.vllm.real_vllm import VllmServer

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            if not any(item.iter_markers("timeout")):
                item.add_marker(pytest.mark.timeout(real_vllm.START_LIMIT_S + 300))


@pytest.fixture(scope="session")
def vllm_executable() -> Path:
    executable = real_vllm.ENVIRONMENT / "bin/vllm"
    if not executable.exists():
        missing = (
            f"no vLLM in {real_vllm.ENVIRONMENT}: `make vllm` builds it, or TAILWRIGHT_VLLM_ENV names another place"
        )
        if os.environ.get("TAILWRIGHT_VLLM_REQUIRED"):
            pytest.fail(missing)
        pytest.skip(missing)
    return executable


@pytest.fixture(scope="session")
def _session_server(vllm_executable: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    server = VllmServer(tmp_path_factory.mktemp("vllm"))
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def vllm_server(_session_server: VllmServer) -> VllmServer:
    assert _session_server.alive, f"an earlier test ended the session's server:\n{_session_server.log_end()}"
    limits.give(_session_server, limits.FULL, revision=0)
    return _session_server


@pytest.fixture(scope="session")
def _spare(vllm_executable: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    server = VllmServer(tmp_path_factory.mktemp("spare"))
    yield server
    server.stop()


@pytest.fixture
def spare_server(_spare: VllmServer) -> VllmServer:
    """Started if it does not run; its test may end it."""
    return _spare if _spare.alive else _spare.start()


@pytest.fixture
def start_vllm(vllm_executable: Path, tmp_path: Path) -> Iterator[Callable[..., VllmServer]]:
    started: list[VllmServer] = []

    def start(**options: Any) -> VllmServer:
        server = VllmServer(tmp_path / f"vllm-{len(started)}", **options)
        started.append(server)
        return server.start()

    try:
        yield start
    finally:
        for server in started:
            server.stop()

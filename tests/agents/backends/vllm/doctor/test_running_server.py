"""Findings about a running server, of the stand-in in several states."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.backends.vllm.doctor.running_server import Server, _is_cpu, ask, findings
from controlplane.terminal.doctor_finding import Finding
from tests.processes import free_port

pytestmark = pytest.mark.slow

SCHEDULER = ("--scheduler-cls", "tailwright_vllm.scheduler.live_scheduler")


def by_name(server: Server, folder: Path | None) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(server, folder)}


def test_a_healthy_server(start: Callable[..., Any]) -> None:
    running = start(*SCHEDULER)
    server = ask(running.url)
    assert server.pid == running.process.pid
    found = by_name(server, running.folder)
    lacking = {name for name, finding in found.items() if not finding.fine}
    assert lacking == {"libtcmalloc", "libiomp"}, found  # The stand-in is no vLLM: nothing is preloaded.
    assert found["served model"].found == "a-model" and found["server's version"].found == "0.32.0"
    assert "by vLLM's present names" in found["metrics"].found


def test_a_server_without_the_plugin_in_use(start: Callable[..., Any], tmp_path: Path) -> None:
    running = start(TAILWRIGHT_VLLM_DIR="", VLLM_SERVER_DEV_MODE="")
    found = by_name(ask(running.url), tmp_path / "share")
    assert not found["development mode"].fine and not found["development mode"].needed
    assert "scheduler" not in found
    assert found["TAILWRIGHT_VLLM_DIR"].found == "not set: the plugin is idle" and found["TAILWRIGHT_VLLM_DIR"].needed
    assert found["TAILWRIGHT_VLLM_DIR"].mend.endswith(f"TAILWRIGHT_VLLM_DIR={tmp_path / 'share'}")


def test_a_server_with_its_own_scheduler_and_another_folder(start: Callable[..., Any], tmp_path: Path) -> None:
    running = start()
    found = by_name(ask(running.url), tmp_path / "elsewhere")
    assert not found["scheduler"].fine and "--scheduler-cls" in found["scheduler"].mend
    assert not found["TAILWRIGHT_VLLM_DIR"].fine


def test_a_sick_server_and_none_at_all(start: Callable[..., Any]) -> None:
    running = start(*SCHEDULER, STAND_IN_SICK="1")
    sick = by_name(ask(running.url), None)
    assert "answers GET /health with 503" in sick["server"].found and sick["served model"].fine
    port = free_port()
    none = by_name(ask(f"http://127.0.0.1:{port}"), None)
    assert list(none) == ["server"] and f"nobody listens on port {port} here" in none["server"].mend


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "GET /metrics does not answer"),
        ("# HELP x y\nx 1\n", "there is nothing of vLLM's in it"),
        (
            'vllm:time_per_output_token_seconds_bucket{le="0.1",model_name="m"} 1\n',
            "by old names (vllm:time_per_output_token_seconds)",
        ),
    ],
)
def test_metrics_that_tell_less(text: str | None, told: str) -> None:
    server = Server("http://10.0.0.1:8000", "", "0.9.0", ("m",), text)
    found = by_name(server, None)["metrics"]
    assert told in found.found and not found.fine and not found.needed


def test_preloads_matter_on_a_cpu_only(start: Callable[..., Any]) -> None:
    running = start(*SCHEDULER)
    pid = running.process.pid
    for device, wanted in (("cpu", True), ("cuda", False)):
        server = Server(
            "http://127.0.0.1:1", "", "0.32.0", ("m",), None, {"device_config": {"device_type": device}}, pid
        )
        found = by_name(server, None)
        assert ("libiomp" in found) is wanted and ("libtcmalloc" in found) is wanted
        assert not wanted or not found["libiomp"].needed


def test_a_driver_that_is_loaded_tells_of_a_device() -> None:
    silent = Server("http://127.0.0.1:1", "", "0.32.0", ("m",), None)
    assert _is_cpu(silent, {"libc.so.6", "libtorch_cpu.so"})
    assert not _is_cpu(silent, {"libc.so.6", "libcuda.so.1"})

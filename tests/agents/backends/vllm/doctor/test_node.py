"""Findings about a node file: its models, its ports, room for a standby."""

import os
import socket
from pathlib import Path

import pytest

from agents.backends.vllm.doctor.node import findings, load
from controlplane.contract.errors import BadSettings
from controlplane.terminal.doctor_finding import Finding
from tests.processes import free_port


def node_file(folder: Path, extra: str = "", model: str = "./model") -> Path:
    (folder / "model").mkdir(exist_ok=True)
    (folder / "vllm").write_text("#!/bin/sh\n")
    (folder / "vllm").chmod(0o755)
    path = folder / "node.toml"
    path.write_text(
        f'executable = "{folder}/vllm"\nserved_model_name = "m"\nport = {free_port()}\n'
        f"server_ports = [{free_port()}, {free_port()}]\n{extra}\n"
        f'[variants.none]\nmodel = "{model}"\n[variants.fp8]\nmodel = "somebody/a-model"\n'
    )
    return path


def by_name(path: Path) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(path, load(path))}


def test_a_node_that_can_start(tmp_path: Path) -> None:
    found = by_name(node_file(tmp_path))
    assert all(finding.fine for finding in found.values()), found
    assert "by name" in found["model, fp8"].found
    assert found["standby"].found.startswith("decided when a server runs")


def test_a_model_that_is_not_there_and_a_port_that_is_taken(tmp_path: Path) -> None:
    path = node_file(tmp_path, model="./missing")
    assert not by_name(path)["model, none"].fine
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", load(path).port))
        holder.listen()
        taken = by_name(path)[f"port {load(path).port}, clients"]
        assert not taken.fine and taken.needed and f"held by process {os.getpid()}: " in taken.found


def test_room_for_a_standby(tmp_path: Path) -> None:
    found = by_name(node_file(tmp_path, f"standby_needs_bytes = {2**60}"))["standby"]
    assert not found.fine and not found.needed and "GiB of memory" in found.found
    assert by_name(node_file(tmp_path, "standby_needs_bytes = 1"))["standby"].fine
    assert "standby = never" in by_name(node_file(tmp_path, 'standby = "never"'))["standby"].found


def test_a_node_file_that_is_wrong_is_refused_by_field(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="hold: no such field"):
        load(node_file(tmp_path, "hold = 3"))

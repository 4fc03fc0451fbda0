"""Sockets find a folder with a short enough name, which is nobody else's."""

import socket
from pathlib import Path

import pytest

from agents.backends.vllm.managed.run_folder import choose_run_folder
from controlplane.contract.errors import BadSettings
from controlplane.serving.owned_socket import make_folder


def test_beside_the_state_where_that_is_short(tmp_path: Path) -> None:
    assert choose_run_folder(None, Path("/var/lib/tailwright")) == Path("/var/lib/tailwright/run")


def test_a_long_state_folder_gets_a_short_one_elsewhere_always_the_same(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 60) / ("y" * 60)
    chosen = choose_run_folder(None, long)
    assert chosen == choose_run_folder(None, long)
    assert chosen != choose_run_folder(None, long / "z")
    socket_path = chosen / "s-01234567" / "events.sock"
    make_folder(chosen, "run_dir")
    socket_path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(socket_path))
    socket_path.unlink()
    socket_path.parent.rmdir()
    chosen.rmdir()


def test_a_given_one_that_is_too_long_is_refused_with_the_mend(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"run_dir: .* too long .* such as /run/tailwright"):
        choose_run_folder(Path("/run") / ("x" * 100), tmp_path)

"""Control sockets: nobody but their owner, one process each, and a dead one's place is taken again."""

import os
import socket
import stat
from pathlib import Path

import pytest

from agents.host.engine_socket import engine_socket
from controlplane.contract.errors import BadSettings, Conflict
from controlplane.serving.owned_socket import check_folder, claim, make_folder


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "run"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(BadSettings, match=r"run_dir: .* not this user's alone"):
        make_folder(open_to_all, "run_dir")
    link = tmp_path / "link"
    link.symlink_to("/tmp")
    with pytest.raises(BadSettings, match="not this user's alone"):
        make_folder(link, "run_dir")
    with pytest.raises(BadSettings, match=r"run_dir: .* cannot be read"):
        check_folder(tmp_path / "none", "run_dir")


def test_a_made_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "new", "run_dir")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    make_folder(tmp_path / "new", "run_dir")


def test_a_socket_is_its_owners_and_one_processs(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with claim(path, "control_socket"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(Conflict, match="another process serves"):
            claim(path, "control_socket")


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with claim(path, "control_socket") as taken:
        taken.listen()
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.connect(str(path))


def test_a_path_that_is_too_long_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"control_socket: .* longer than 107 bytes"):
        claim(tmp_path / ("x" * 108), "control_socket")


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "engine.sock.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadSettings):
        claim(tmp_path / "engine.sock", "control_socket")
    assert not (tmp_path / "elsewhere").exists()


def test_an_engines_socket_is_in_the_runtime_folder_else_in_a_folder_of_the_users_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert engine_socket(7400) == tmp_path / "tailwright-engine-7400.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert engine_socket(7401) == tmp_path / f"tailwright-{os.getuid()}" / "tailwright-engine-7401.sock"

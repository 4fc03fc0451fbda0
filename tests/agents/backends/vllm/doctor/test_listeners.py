"""Who listens, and with what: of sockets and processes of this test, and of a /proc made by hand."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from agents.backends.vllm.doctor import listeners as processes


def test_the_listener_of_a_port_is_found() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert processes.listener(port) is None  # Bound, and not listening yet.
        listening.listen()
        assert processes.listens("127.0.0.1", port)
        assert processes.listener(port) == os.getpid()
    assert not processes.listens("127.0.0.1", port)
    assert processes.listener(port) is None


def test_a_process_tells_its_environment_command_and_libraries() -> None:
    program = "import sys; print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], env={"TAILWRIGHT_VLLM_DIR": "/run/x"}, stdin=-1, stdout=-1
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        assert processes.environment(child.pid) == {"TAILWRIGHT_VLLM_DIR": "/run/x"}
        assert "sys.stdin.read" in (processes.command_line(child.pid) or "")
        assert child.pid in processes.family(os.getpid())
        loaded = processes.libraries([child.pid])
        assert loaded is not None and any(name.startswith("libc") for name in loaded)
        child.stdin.close()


def test_what_cannot_be_seen_is_none(tmp_path: Path) -> None:
    assert processes.listener(80, proc=tmp_path) is None
    assert processes.environment(1, proc=tmp_path) is None
    assert processes.command_line(1, proc=tmp_path) is None
    assert processes.libraries([1], proc=tmp_path) is None
    assert processes.family(1, proc=tmp_path) == [1]

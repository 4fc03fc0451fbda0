"""Who listens, and with what: of sockets and processes of this test."""

import os
import socket
import subprocess
import sys

from agents.backends.vllm.doctor import listeners


def test_the_listener_of_a_port_is_found() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert listeners.listener(port) is None  # Bound, and not listening yet.
        listening.listen()
        assert listeners.listens("127.0.0.1", port)
        assert listeners.listener(port) == os.getpid()
    assert not listeners.listens("127.0.0.1", port)
    assert listeners.listener(port) is None


def test_a_process_tells_its_environment_command_and_libraries() -> None:
    program = "import sys; print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], env={"TAILWRIGHT_VLLM_DIR": "/run/x"}, stdin=-1, stdout=-1
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        assert listeners.environment(child.pid) == {"TAILWRIGHT_VLLM_DIR": "/run/x"}
        assert "sys.stdin.read" in (listeners.command_line(child.pid) or "")
        loaded = listeners.libraries([child.pid])
        assert loaded is not None and any(name.startswith("libc") for name in loaded)
        child.stdin.close()


def test_what_cannot_be_seen_is_none() -> None:
    nobody = 2**22 + 1  # Above the largest number that Linux gives a process.
    assert listeners.environment(nobody) is None
    assert listeners.command_line(nobody) is None
    assert listeners.libraries([nobody]) is None

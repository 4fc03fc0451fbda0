"""Findings about a shared folder: one made by hand, healthy, and broken in every way it can be."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from agents.backends.vllm.doctor.folder import findings, running
from controlplane.terminal.doctor_finding import Finding

NOW = 1_000_000.0
KNOBS = {"max_num_batched_tokens": 512, "prefill_chunk_size": 0, "max_num_seqs": 8, "num_speculative_tokens": 0}


def write(folder: Path, name: str, content: object, age_s: float = 0.0) -> None:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    os.utime(folder / name, (NOW - age_s, NOW - age_s))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All that a healthy server leaves, but its socket."""
    folder = tmp_path / "share"
    folder.mkdir(mode=0o700)
    on = {"on": True, "why": ""}
    write(folder, "plugin.json", {"plugin": "0.2.0", "vllm": "0.32.0", "tried": True, "raw_statistics": on,
                                  "live_limits": on})  # fmt: skip
    write(folder, "knobs.json", {"revision": 3, "knobs": KNOBS}, age_s=20)
    write(folder, "effective.json", {"revision": 3, "knobs": KNOBS, "time": NOW - 19, "pid": os.getpid(),
                                     "scheduler": "LiveScheduler", "error": "", "clamped": {}})  # fmt: skip
    write(folder, "steps.json", {"run": "a", "steps": {"no_work": 40, "chunk": 2}})
    return folder


def by_name(folder: Path) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(folder, NOW)}


def change(folder: Path, name: str, **values: object) -> None:
    write(folder, name, {**json.loads((folder / name).read_text()), **values})


class Feed:
    """A listening socket that answers each reader with a line."""

    def __init__(self, path: Path, answer: bytes) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._answer = answer
        self.readers: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                reader, _ = self._listener.accept()
            except OSError:
                return
            self.readers.append(reader)
            reader.recv(4096)
            reader.sendall(self._answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for reader in self.readers:
            reader.close()


def test_a_healthy_folder(folder: Path) -> None:
    feed = Feed(folder / "events.sock", b'{"kind": "hello", "model": "m"}\n')
    try:
        found = by_name(folder)
        assert all(finding.fine for finding in found.values()), found
        assert "answers, model m" in found["raw statistics"].found
        assert "revision 3, told 19 s ago by the LiveScheduler" in found["live limits"].found
        assert found["what binds steps"].found == "42 steps counted"
    finally:
        feed.close()


@pytest.mark.parametrize("content", [None, "{", '{"run": "a"}'])
def test_a_plugin_that_does_not_count_steps(folder: Path, content: str | None) -> None:
    (folder / "steps.json").unlink()
    if content is not None:
        write(folder, "steps.json", content)
    found = by_name(folder)["what binds steps"]
    assert not found.fine and not found.needed and "from version 0.2.0" in found.mend


def test_a_reader_that_is_connected_is_left_alone(folder: Path) -> None:
    feed = Feed(folder / "events.sock", b'{"kind": "hello", "model": "m"}\n')
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
            agent.connect(str(folder / "events.sock"))
            agent.sendall(b"{}\n")
            assert agent.recv(100)
            found = by_name(folder)["raw statistics"]
            assert found.fine and "has a reader" in found.found
            assert len(feed.readers) == 1
    finally:
        feed.close()


def test_a_socket_that_nobody_serves(folder: Path) -> None:
    assert not by_name(folder)["raw statistics"].fine
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stale.bind(str(folder / "events.sock"))
    stale.close()
    found = by_name(folder)["raw statistics"]
    assert not found.fine and "does not answer" in found.found and found.needed


@pytest.mark.parametrize("answer", [b'{"kind": "other"}\n', b"nonsense\n"])
def test_a_socket_of_somebody_else(folder: Path, answer: bytes) -> None:
    feed = Feed(folder / "events.sock", answer)
    try:
        assert not by_name(folder)["raw statistics"].fine
    finally:
        feed.close()


def test_rights_and_place(tmp_path: Path, folder: Path) -> None:
    assert "No such file" in by_name(tmp_path / "none")["folder"].found
    (tmp_path / "file").write_text("")
    assert "is no folder" in by_name(tmp_path / "file")["folder"].found
    folder.chmod(0o777)
    found = by_name(folder)["folder"]
    assert not found.fine and found.mend == f"chmod go-w {folder}"
    long = by_name(tmp_path / ("x" * 100))["socket's path"]
    assert not long.fine and "of 107" in long.found


def test_limits_that_are_not_live(folder: Path) -> None:
    (folder / "effective.json").unlink()
    assert "--scheduler-cls" in by_name(folder)["live limits"].mend
    write(folder, "effective.json", "{half")
    assert not by_name(folder)["live limits"].fine


def test_a_wish_that_was_refused_or_not_taken_up(folder: Path) -> None:
    change(folder, "effective.json", error="knobs.json: not JSON")
    refused = by_name(folder)["live limits"]
    assert not refused.fine and "not JSON" in refused.found
    change(folder, "effective.json", error="", time=NOW - 60)
    late = by_name(folder)["live limits"]
    assert not late.fine and "knobs.json is 40 s newer" in late.found


def test_a_writer_that_is_gone_and_a_clamped_wish_are_told(folder: Path) -> None:
    change(folder, "effective.json", pid=2**22 + 1, clamped={"max_num_batched_tokens": 9000})
    found = by_name(folder)
    assert found["live limits"].fine and "is not seen here" in found["live limits"].found
    assert not found["capacity"].fine and not found["capacity"].needed and "9000" in found["capacity"].found


def test_what_the_plugin_says_of_itself(folder: Path) -> None:
    change(folder, "plugin.json", tried=False, vllm="9.9", live_limits={"on": False, "why": "its own scheduler"})
    found = by_name(folder)
    assert not found["plugin's word"].fine and not found["plugin's word"].needed
    assert found["statistics"].fine
    assert not found["limits"].fine and found["limits"].found == "its own scheduler"
    (folder / "plugin.json").unlink()
    assert by_name(folder)["plugin's word"].needed and "statistics" not in by_name(folder)


def test_what_runs_is_told_by_both_processes_of_one_server(folder: Path) -> None:
    limits = {"max_num_queued_reqs": {"runs": 8, "started": None, "why_not": ""}}
    write(folder, "queue_limits.json", {"limits": limits, "process": "a1"})
    change(folder, "plugin.json", process="a1")
    told = running(folder)
    assert told is not None and told["knobs"] == KNOBS and told["more"]["max_num_queued_reqs"]["runs"] == 8
    change(folder, "plugin.json", process="b2")
    assert (running(folder) or {})["more"] == {}
    write(folder, "effective.json", "{")
    assert running(folder) is None

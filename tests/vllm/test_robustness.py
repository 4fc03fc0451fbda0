"""Whatever happens to the folder that vLLM shares with the agent, vLLM serves on, and its last good limits stay."""

import os
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controlplane.contract.bodies.nodes import TrialConfig
from tests.processes import wait_for
from tests.vllm import limits
from tests.vllm.journey import NODE, Journey
from tests.vllm.observation import engine_ids, told_by_plugin
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import VllmServer

GOOD = {**limits.FULL, "max_num_seqs": 5, "prefill_chunk_size": 64}
REVISION = 41


@pytest.fixture
def server(vllm_server: VllmServer) -> VllmServer:
    """The session's server, with limits that no default has."""
    limits.give(vllm_server, GOOD, REVISION)
    return vllm_server


def serves(server: VllmServer) -> bool:
    return not any(answer.failed for answer in server.complete_all(prompts(4, seed=21), 6))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe garbage \x80" * 20,
        b"{",
        b"[]",
        b'{"revision": 42}',
        b'{"revision": 42, "knobs": {"max_num_seqs": -3}}',
        b'{"revision": 42, "knobs": {"max_num_seqs": 1e400}}',
        b'{"revision": 42, "knobs": {"no_such_knob": 1}}',
        b'{"revision": -1, "knobs": {}}',
        b'{"revision": 42, "knobs": {"num_speculative_tokens": [[4, 2], [2, 1]]}}',
        b"[" * 100_000,
        b'{"revision": 42, "knobs": {}, "more": "' + b"x" * 20_000_000 + b'"}',
    ],
    ids=lambda content: f"{len(content)} bytes: {content[:24]!r}",
)
def test_a_bad_knob_file_is_named_and_the_last_good_limits_stay(server: VllmServer, content: bytes) -> None:
    limits.put(server, content)
    wait_for("the scheduler says what is wrong", lambda: limits.told(server).get("error"))
    assert serves(server)
    says = limits.told(server)
    assert (says["revision"], says["knobs"]) == (REVISION, GOOD)
    limits.give(server, {"max_num_seqs": 3}, 43)
    assert limits.told(server)["knobs"]["max_num_seqs"] == 3


def test_a_missing_knob_file_changes_nothing(server: VllmServer) -> None:
    (server.folder / "knobs.json").unlink()
    assert serves(server)
    assert limits.told(server)["knobs"] == GOOD


def test_a_folder_or_a_pipe_in_the_knob_files_place_holds_nothing_up(server: VllmServer) -> None:
    place = server.folder / "knobs.json"
    place.unlink()
    place.mkdir()
    assert serves(server)
    place.rmdir()
    os.mkfifo(place)
    assert serves(server)
    place.unlink()
    assert limits.told(server)["knobs"] == GOOD
    limits.give(server, {"max_num_seqs": 4}, 44)


def test_the_socket_file_removed(server: VllmServer) -> None:
    (server.folder / "events.sock").unlink()
    assert serves(server)
    limits.give(server, {"max_num_seqs": 6}, 45)
    wait_for("the plugin listens again", lambda: (server.folder / "events.sock").exists())
    _is_told_again(server)


def _removed(folder: Path) -> bool:
    """False: vLLM wrote into it meanwhile."""
    try:
        shutil.rmtree(folder)
    except OSError:
        return False
    return True


def test_the_whole_folder_removed(server: VllmServer) -> None:
    wait_for("the folder is removed", lambda: _removed(server.folder))
    assert serves(server)
    wait_for("the scheduler tells its limits again", lambda: limits.told(server))
    assert limits.told(server)["knobs"] == GOOD
    limits.give(server, {"max_num_seqs": 7}, 46)
    wait_for("the plugin listens again", lambda: (server.folder / "events.sock").exists())
    _is_told_again(server)


def test_a_reader_that_never_reads_holds_nothing_up(server: VllmServer) -> None:
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.connect(str(server.folder / "events.sock"))
        stuck.sendall(b"{}\n")
        answers = server.complete_all(prompts(24, seed=22), 16)
        assert not any(answer.failed for answer in answers)
    assert limits.told(server)["knobs"] == GOOD
    _is_told_again(server)


def test_readers_that_say_garbage(server: VllmServer) -> None:
    for said in (b"\xff\x00\n", b"[]\n", b'{"after": "x"}\n', b'{"boot": 3, "after": -1}\n', b"GET / HTTP/1.1\r\n\r\n"):
        with socket.socket(socket.AF_UNIX) as reader:
            reader.settimeout(10)
            reader.connect(str(server.folder / "events.sock"))
            reader.sendall(said)
    assert serves(server)
    _is_told_again(server)


def test_an_agent_killed_while_it_follows(server: VllmServer, tmp_path: Path) -> None:
    journey = Journey(tmp_path, server)
    try:
        journey.start("service")
        journey.start("agent")
        revision = limits.told(server)["revision"]
        with journey.client() as client:
            client.set_trial_config(NODE, TrialConfig(knobs=GOOD))
        wait_for("the agent's limits are in force", lambda: limits.told(server)["revision"] != revision)
        given = limits.told(server)["revision"]
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(server.complete_all, prompts(24, seed=23), 16)
            journey.kill("agent")
            assert not any(answer.failed for answer in loading.result())
        assert limits.in_force(server, given, GOOD)
    finally:
        journey.end()
    assert serves(server)


def _is_told_again(server: VllmServer) -> None:
    """A new reader gets what happens from now on."""
    began = time.time()
    answer = server.complete(prompts(1, seed=24)[0], 4)
    told = told_by_plugin(server, engine_ids([answer]), began)
    assert told.finished

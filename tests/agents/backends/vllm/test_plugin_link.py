"""The folder's files from the agent's end: whose word counts, what is written, who is waited for."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tailwright_vllm.knob_file import Capacity, parse

from agents.backends.base import EngineUnreachable
from agents.backends.vllm.further_knobs import further_live, further_running
from agents.backends.vllm.plugin_link import PluginLink
from tests.agents.backends.vllm.test_readback import TOLD

REQS = "max_num_queued_reqs"
EFFECTIVE = {**TOLD, "asked": 5.0, "time": 10.0, "error": ""}
QUEUE: dict[str, Any] = {
    "limits": {REQS: {"runs": 8, "started": None, "why_not": ""}},
    "asked": 5.0, "time": 9.0, "error": "", "process": "a1",
}  # fmt: skip


@pytest.fixture
def link(tmp_path: Path) -> PluginLink:
    put(tmp_path, "effective", EFFECTIVE)
    put(tmp_path, "queue_limits", QUEUE)
    put(tmp_path, "plugin", {"process": "a1"})
    return PluginLink(tmp_path)


def put(folder: Path, name: str, content: Any) -> None:
    (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))


def test_what_both_processes_tell_is_one_answer(link: PluginLink) -> None:
    told = link.read_effective()
    assert further_running(told) == {REQS: 8} and told["revision"] == 3
    assert further_live(told)[REQS].start == 1_000_000


@pytest.mark.parametrize(
    "plugin",
    [{"process": "b2"}, {"process": None}, {"plugin": "0.5.0"}, "", "[]"],
    ids=["other", "null", "old", "no", "x"],
)
def test_queue_limits_of_another_process_are_not_believed(link: PluginLink, plugin: Any) -> None:
    put(link.folder, "plugin", plugin)
    assert further_running(link.read_effective()) == {}


def test_queue_limits_told_before_the_server_began_are_not_believed(link: PluginLink) -> None:
    assert further_running(link.read_effective(oldest=9.0)) == {REQS: 8}
    assert further_running(link.read_effective(oldest=9.5)) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", "7", {}, {"process": None}])
def test_damaged_queue_limits_cost_nothing_else(link: PluginLink, content: Any) -> None:
    put(link.folder, "queue_limits", content)
    told = link.read_effective()
    assert further_running(told) == {} and told["knobs"] == TOLD["knobs"]


def test_a_folder_without_them_is_that_of_an_older_plugin(link: PluginLink) -> None:
    (link.folder / "queue_limits.json").unlink()
    assert further_running(link.read_effective()) == {}


def test_the_knob_file_is_one_that_the_plugin_takes_and_an_older_one_passes_over(link: PluginLink) -> None:
    link.write_knobs(4, {"max_num_seqs": 3}, 6.0, {"watermark": 0.25, REQS: 1_000_000, "max_num_queued_tokens": 64})
    content = (link.folder / "knobs.json").read_bytes()
    wanted = parse(content, Capacity(1024, 8, 0))
    assert (wanted.revision, wanted.knobs, wanted.asked) == (4, {"max_num_seqs": 3}, 6.0)
    assert wanted.queue_limits == {REQS: None, "max_num_queued_tokens": 64}
    assert json.loads(content)["more"] == {"watermark": 0.25}  # A name here that it does not know it would refuse.


def settled(link: PluginLink, queue: bool, timeout_s: float = 0.05) -> dict[str, Any]:
    return asyncio.run(link.settled(6.0, 11.0, timeout_s, queue=queue))


def test_who_has_to_follow_is_waited_for_and_named(link: PluginLink) -> None:
    with pytest.raises(EngineUnreachable, match="vLLM's scheduler did not take up"):
        settled(link, queue=False)
    put(link.folder, "effective", {**EFFECTIVE, "asked": 6.0})
    assert settled(link, queue=False, timeout_s=60)["asked"] == 6.0
    with pytest.raises(EngineUnreachable, match="vLLM's server process did not take up"):
        settled(link, queue=True)
    put(link.folder, "queue_limits", {**QUEUE, "asked": 6.0})
    assert settled(link, queue=True, timeout_s=60)["error"] == ""


def test_what_the_server_process_refuses_is_told_where_it_is_waited_for(link: PluginLink) -> None:
    put(link.folder, "effective", {**EFFECTIVE, "asked": 6.0})
    put(link.folder, "queue_limits", {**QUEUE, "time": 12.0, "error": "knobs.json: no"})
    assert settled(link, queue=True, timeout_s=60)["error"] == "knobs.json: no"
    assert settled(link, queue=False, timeout_s=60)["error"] == ""

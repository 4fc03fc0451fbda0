import json
import tomllib
from pathlib import Path

import pytest

from agents.backends.vllm.node_file import StandbyUse, load_node_file
from benchmarks.engine_measures.texts import Texts
from benchmarks.vllm_measures.command import BUNDLED
from benchmarks.vllm_measures.managed_node import CAPACITY, ManagedNode, cut_off
from benchmarks.vllm_measures.proc_files import MARK
from benchmarks.vllm_measures.processes import Nursery
from benchmarks.vllm_measures.session import Session, Settings
from controlplane.contract.knobs import Quantization

_NO_TEXTS = Texts.__new__(Texts)
"""Reading them takes seconds, and a node file has none."""


@pytest.mark.parametrize("standby", [True, False])
def test_the_node_file_is_one_that_the_agent_takes(tmp_path: Path, standby: bool) -> None:
    executable = tmp_path / "bin" / "vllm"
    executable.parent.mkdir()
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    settings = Settings(str(tmp_path / "bin" / "python"), BUNDLED, rounds=1, threads=1, seed=1, quick=True)
    nursery = Nursery(tmp_path)
    path = tmp_path / "node.toml"

    path.write_text(ManagedNode(Session(settings, nursery, _NO_TEXTS)).node_file(standby))

    node = load_node_file(path)
    assert node.standby is (StandbyUse.ALWAYS if standby else StandbyUse.NEVER)
    assert node.capacity.max_num_seqs == CAPACITY["max_num_seqs"]
    assert set(node.variants) == {Quantization.NONE, Quantization.INT8}
    # What ends a run has to find the servers that the agent starts.
    assert node.environment[MARK] == nursery.mark
    assert tomllib.loads(path.read_text())["executable"] == str(executable)


def test_a_cut_off_model_lacks_weights_alone(tmp_path: Path) -> None:
    broken = cut_off(BUNDLED, tmp_path / "broken")

    assert json.loads((broken / "config.json").read_text()) == json.loads((BUNDLED / "config.json").read_text())
    whole, cut = BUNDLED / "model.safetensors", broken / "model.safetensors"
    assert 0 < cut.stat().st_size < whole.stat().st_size
    assert whole.read_bytes().startswith(cut.read_bytes())

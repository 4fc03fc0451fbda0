"""The world of people who chat beside documents that are read: what its engines start with."""

from pathlib import Path

from agents.demo.engines import EmbeddedEngines
from agents.demo.plan import Plan
from agents.demo.processes import Processes
from benchmarks.tuner_measures.mixed_world import DEFAULTS, mixed_plan, with_model
from controlplane.contract.knobs import EngineConfig


def test_one_engine_serves_by_its_own_defaults() -> None:
    embedded = mixed_plan(Plan(), chat=1.5, answer=90)
    assert embedded.good == EngineConfig().knobs() and len(embedded.engine_ports) == 1
    assert (embedded.rate, embedded.max_output_tokens) == (1.5, 90)
    vllm = mixed_plan(Plan.on_vllm(Path("/opt/vllm/bin/vllm")), chat=1.0, answer=160)
    assert vllm.good == DEFAULTS and vllm.vllm is not None and vllm.vllm.capacity_seqs == DEFAULTS["max_num_seqs"]


def test_another_model_is_served_without_the_bundled_ones_drafts(tmp_path: Path) -> None:
    class Noted(Processes):
        def start(self, name: str, arguments: list[str], **rest: object) -> None:  # type: ignore[override]
            self.arguments = arguments

    noted = Noted(tmp_path)
    plan = with_model(Plan(), tmp_path / "gemma")
    EmbeddedEngines(plan).start(noted, "node-1", 7401)  # type: ignore[arg-type]
    assert str(tmp_path / "gemma") in noted.arguments and "--draft-model" not in noted.arguments
    assert f"{plan.kv_cache_mib}M" in noted.arguments and plan.kv_cache_mib > Plan().kv_cache_mib

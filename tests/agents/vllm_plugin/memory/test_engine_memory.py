"""vLLM's memory, asked of its workers once at the start, and told with the limits."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm import surprises
from tailwright_vllm.folder import VARIABLE
from tailwright_vllm.limits import Limits
from tailwright_vllm.memory import engine_memory, worker_memory

from tests.agents.vllm_plugin.memory.made_workers import VOCAB, WEIGHTS, cpu_worker, gpu_worker, vllm_config
from tests.agents.vllm_plugin.vllm_trees import Scheduler, config_of

Put = Callable[..., None]
CACHES = [SimpleNamespace(kv_cache_tensors=[SimpleNamespace(size=1000), SimpleNamespace(size=600)])]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def started(config: Any, workers: list[Any], **more: Any) -> Any:
    """An executor whose workers have made their caches."""
    engine_memory.register()
    executor = sys.modules["vllm.v1.executor.abstract"].Executor(config, workers)
    vars(executor).update(more)
    executor.initialize_from_config(CACHES * len(workers))
    assert executor.made == CACHES * len(workers)
    return executor


def test_the_scheduler_tells_what_was_found(vllm: Put, folder: Path) -> None:
    vllm()
    started(vllm_config(), [cpu_worker()])
    limits = Limits(Scheduler(config_of()), folder)
    limits.write()
    told = json.loads((folder / "effective.json").read_bytes())["memory"]
    assert told == {
        "limit_bytes": 10_000,
        "weights_bytes": WEIGHTS,
        "draft_weights_bytes": 0,
        "runtime_bytes": worker_memory._at_start["VmRSS"],
        "activation_bytes_per_token": 128,
        "kv_cache_memory_bytes": 1600,
        "kv_cache_size_tokens": 400,
        "kv_cache_least_bytes": 1600 * 50 // 400,
        "max_model_len": 50,
        "logits_bytes_per_token": 4 * VOCAB,
    }


def test_it_is_asked_once_however_often_vllm_registers(vllm: Put, folder: Path) -> None:
    vllm()
    engine_memory.register()
    assert started(vllm_config(), [cpu_worker()]).asked == 1


def test_figures_are_of_all_workers_together(vllm: Put, folder: Path) -> None:
    vllm()
    config = vllm_config("cuda")
    started(config, [gpu_worker(config), gpu_worker(config)])
    told = engine_memory.memory()
    assert (told["limit_bytes"], told["weights_bytes"], told["runtime_bytes"]) == (20_000, 2 * WEIGHTS, 1000)
    assert (told["kv_cache_memory_bytes"], told["logits_bytes_per_token"]) == (3200, 4 * VOCAB)


def test_what_one_worker_does_not_tell_is_not_told(vllm: Put, folder: Path) -> None:
    vllm()
    config = vllm_config("cuda")
    other = gpu_worker(config)
    del other.init_snapshot, other.requested_memory
    started(config, [gpu_worker(config), other])
    assert "limit_bytes" not in engine_memory.memory() and "weights_bytes" in engine_memory.memory()


def test_a_cache_of_given_size_has_no_least(vllm: Put, folder: Path) -> None:
    vllm()
    config = vllm_config()
    config.cache_config.num_gpu_blocks_override = 7
    started(config, [cpu_worker(config), cpu_worker(config)])
    told = engine_memory.memory()
    assert "kv_cache_least_bytes" not in told
    assert "limit_bytes" not in told  # Each of the two could use all of the machine's.


@pytest.mark.parametrize("shortened", ["kv_cache_size_tokens", "original_max_model_len"])
def test_a_vllm_that_shortens_its_requests_starts_with_any_cache(vllm: Put, folder: Path, shortened: str) -> None:
    vllm()
    config = vllm_config()
    if shortened == "original_max_model_len":
        config.model_config.original_max_model_len = -1
    else:
        del config.cache_config.kv_cache_size_tokens  # An older one, which does not say.
    started(config, [cpu_worker(config)])
    assert engine_memory.memory()["kv_cache_least_bytes"] == 0


def test_a_model_that_does_not_generate_wants_no_logits(vllm: Put, folder: Path) -> None:
    vllm()
    config = vllm_config()
    config.model_config.runner_type = "pooling"
    started(config, [cpu_worker(config)])
    assert engine_memory.memory()["logits_bytes_per_token"] == 0


@pytest.mark.parametrize("far", ["ray", "nodes"])
def test_workers_on_other_machines_are_not_asked(vllm: Put, folder: Path, far: str) -> None:
    vllm()
    nodes = SimpleNamespace(nnodes=2 if far == "nodes" else 1)
    executor = started(vllm_config(parallel_config=nodes), [cpu_worker()], uses_ray=far == "ray")
    assert executor.asked == 0 and engine_memory.memory() == {}
    assert surprises.surprises.counts == {"memory": 1}


def test_without_the_folder_nothing_is_wrapped(vllm: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    vllm()
    assert started(vllm_config(), [cpu_worker()]).asked == 0
    assert engine_memory.memory() == {} and surprises.surprises.counts == {}


def test_another_vllm_comes_up_all_the_same(vllm: Put, folder: Path) -> None:
    vllm(Executor=None)
    engine_memory.register()
    assert surprises.surprises.counts == {"memory": 1}
    vllm()
    started(SimpleNamespace(), [cpu_worker()])
    assert engine_memory.memory() == {} and surprises.surprises.counts == {"memory": 2}


def test_errors_of_vllms_own_reach_vllm(vllm: Put, folder: Path) -> None:
    vllm()
    engine_memory.register()
    executor = sys.modules["vllm.v1.executor.abstract"].Executor(vllm_config(), [])
    executor.made = None
    with pytest.raises(TypeError):
        executor.initialize_from_config(CACHES)
    assert executor.asked == 0

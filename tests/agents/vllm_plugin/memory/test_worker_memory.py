"""What a worker holds: counted by its tensors, and never the cause of a failed start."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm import surprises
from tailwright_vllm.memory import worker_memory
from tailwright_vllm.memory.worker_memory import note_start, read_worker

from tests.agents.vllm_plugin.memory.made_workers import (
    HIDDEN,
    INNER,
    WEIGHTS,
    Model,
    Product,
    Seeing,
    cpu_worker,
    gpu_worker,
    vllm_config,
)

FIXED = SimpleNamespace(
    kv_cache_memory_bytes=500, num_gpu_blocks_override=None, gpu_memory_utilization=0.5, kv_cache_size_tokens=400
)


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker_memory, "_at_start", {})
    monkeypatch.setattr(surprises.surprises, "counts", {})
    (tmp_path / "status").write_text("Name:\tvllm\nVmRSS:\t       7 kB\nRssAnon:\t 3 kB\nRssFile:\t 4 kB\n")
    note_start(tmp_path / "status")


def test_of_a_cpu() -> None:
    assert read_worker(cpu_worker()) == {
        "sized_by_room": 1,
        "limit_bytes": 10_000,
        "weights_bytes": WEIGHTS,  # Of packed products as much as they were.
        "draft_weights_bytes": 0,
        "runtime_bytes": 7 * 1024,
        "activation_bytes_per_token": 2 * INNER * 2,
    }


def test_of_a_cpu_whose_cache_has_a_size_of_its_own() -> None:
    found = read_worker(cpu_worker(vllm_config(cache_config=FIXED)))
    assert found["sized_by_room"] == 0
    assert found["limit_bytes"] == 20_000  # All there is: half of it was asked for.
    assert found["runtime_bytes"] == 3 * 1024  # Mapped files are dropped where memory is short.


def test_of_a_gpu() -> None:
    found = read_worker(gpu_worker())
    assert (found["limit_bytes"], found["weights_bytes"], found["runtime_bytes"]) == (10_000, WEIGHTS, 500)
    fixed = gpu_worker(vllm_config("cuda", cache_config=FIXED))
    del fixed.total_consumed  # There vLLM measures nothing.
    found = read_worker(fixed)
    assert found["limit_bytes"] == 16_000 and "runtime_bytes" not in found
    assert surprises.surprises.counts == {}


def test_the_first_account_of_the_start_counts(tmp_path: Path) -> None:
    (tmp_path / "later").write_text("VmRSS:\t 9 kB\n")
    note_start(tmp_path / "later")
    assert read_worker(cpu_worker())["runtime_bytes"] == 7 * 1024


def test_a_draft_model_counts_what_it_has_of_its_own() -> None:
    target, draft = Model(), Model()
    draft.table.weight = draft.head.weight = target.table.weight
    config = vllm_config("cuda", speculative_config=SimpleNamespace(method="eagle"))
    own = WEIGHTS - 2 * target.table.weight.numel()
    for name in ("drafter", "speculator"):
        worker = gpu_worker(config, target, **{name: SimpleNamespace(model=draft)})
        assert read_worker(worker)["draft_weights_bytes"] == own
    ngram = gpu_worker(vllm_config("cuda", speculative_config=SimpleNamespace(method="ngram")))
    assert read_worker(ngram)["draft_weights_bytes"] == 0


def test_only_what_each_token_goes_through_is_counted_of_a_step() -> None:
    assert read_worker(gpu_worker(model=Seeing()))["activation_bytes_per_token"] == 2 * INNER * 2


@pytest.mark.parametrize("split", [{"enable_dbo": True}, {"prefill_context_parallel_size": 2}])
def test_where_a_steps_tokens_are_split_its_activations_are_not_told(split: dict[str, Any]) -> None:
    found = read_worker(gpu_worker(vllm_config("cuda", parallel_config=SimpleNamespace(nnodes=1, **split))))
    assert "activation_bytes_per_token" not in found and surprises.surprises.counts == {}


def test_what_this_vllm_lacks_costs_no_other_figure() -> None:
    strange = gpu_worker(vllm_config("cuda", speculative_config=SimpleNamespace(method="other")), drafter=object())
    del strange.requested_memory
    assert read_worker(strange).keys() == {
        "sized_by_room", "weights_bytes", "runtime_bytes", "activation_bytes_per_token"
    }  # fmt: skip
    assert surprises.surprises.counts == {"memory.limit_bytes": 1, "memory.draft_weights_bytes": 1}
    assert read_worker(object()) == {}


def test_a_model_without_products_of_that_shape_tells_no_activations() -> None:
    plain = Product(HIDDEN, INNER)
    del plain.output_size_per_partition
    found = read_worker(gpu_worker(model=plain))
    assert "activation_bytes_per_token" not in found and found["weights_bytes"] == 2 * HIDDEN * INNER


def test_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_memory, "_at_start", {})
    note_start()
    assert 2**20 < worker_memory._at_start["RssAnon"] < worker_memory._at_start["VmRSS"]

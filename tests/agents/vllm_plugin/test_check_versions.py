"""The reader of vLLM's source: it says what is there, and names what is missing."""

import zipfile
from pathlib import Path

import pytest

from agents.vllm_plugin.check_versions import COLUMNS, Source, judge, table

TREE = {
    "v1/metrics/loggers.py": """
def load_stat_logger_plugin_factories(): ...
class StatLoggerBase:
    def record(self): ...
""",
    "v1/metrics/stats.py": """
class SchedulerStats:
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    kv_cache_usage: float = 0.0
    prefix_cache_stats: object = None
    spec_decoding_stats: object = None
class RequestStateStats:
    arrival_time: float = 0.0
    queued_ts: float = 0.0
    scheduled_ts: float = 0.0
    first_token_ts: float = 0.0
    last_token_ts: float = 0.0
    first_token_latency: float = 0.0
class FinishedRequestStats:
    finish_reason: str
    e2e_latency: float = 0.0
    queued_time: float = 0.0
    prefill_time: float = 0.0
    decode_time: float = 0.0
    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0
class IterationStats:
    def __init__(self):
        self.iteration_timestamp = 0.0
        self.num_generation_tokens = self.num_preempted_reqs = self.num_prompt_tokens = 0
        self.time_to_first_tokens_iter, self.inter_token_latencies_iter = [], []
        self.iteration_timestamp = 0.0
        self.finished_requests: list = []
    def update_from_output(self, output, timestamp, is_prefilling, prompt_len, req_stats): ...
    def update_from_finished_request(self, reason, req_stats): ...
""",
    "v1/spec_decode/metrics.py": """
class SpecDecodingStats:
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: list = None
""",
    "config/scheduler.py": """
class SchedulerConfig:
    scheduler_cls: str = None
    async_scheduling: bool = None
    long_prefill_token_threshold: int = 0
    max_num_queued_reqs: int = None
    max_num_queued_tokens: int = None
""",
    "v1/engine/async_llm.py": """
class AsyncLLM:
    def check_admission(self, n):
        most, tokens = self.scheduler_config.max_num_queued_reqs, self.scheduler_config.max_num_queued_tokens
""",
    "v1/core/sched/async_scheduler.py": "class AsyncScheduler: ...",
    "v1/core/sched/scheduler.py": """
class Scheduler:
    def __init__(self):
        self.max_num_scheduled_tokens = self.max_num_running_reqs = self.num_spec_tokens = 1
        self.running = []
        self.kv_cache_manager = None
    def get_request_counts(self): ...
    def update_from_output(self): ...
    def schedule(self):
        budget = self.max_num_scheduled_tokens
        while self.running and len(self.running) < self.max_num_running_reqs:
            budget -= self.scheduler_config.long_prefill_token_threshold + len(request.spec_token_ids)
""",
    "v1/request.py": """
class Request:
    def __init__(self):
        self.request_id = self.num_computed_tokens = 0
        self.spec_token_ids = []
    @property
    def num_tokens(self): ...
""",
    "v1/core/kv_cache_manager.py": """
class KVCacheManager:
    def allocate_slots(self): ...
""",
    "v1/core/sched/output.py": """
class SchedulerOutput:
    num_scheduled_tokens: dict
    total_num_scheduled_tokens: int
""",
    "v1/executor/abstract.py": """
class Executor:
    def initialize_from_config(self): ...
    def collective_rpc(self): ...
""",
    "config/cache.py": """
class CacheConfig:
    gpu_memory_utilization: float = 0.9
    num_gpu_blocks_override: int = None
    kv_cache_memory_bytes: int = None
""",
    "v1/engine/__init__.py": """
class EngineCoreOutputs:
    scheduler_stats: object = None
""",
}


def _tree(folder: Path, **changed: tuple[str, str]) -> Path:
    for path, content in TREE.items():
        file = folder / "vllm" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for old, new in changed.values():
            content = content.replace(old, new)
        file.write_text(content)
    return folder


def test_a_tree_with_all_of_it_is_live(tmp_path: Path) -> None:
    verdict = judge(Source(_tree(tmp_path)))
    assert verdict.missing == []
    assert verdict.cells == {
        **dict.fromkeys(COLUMNS, "live"),
        "max seqs": "live, by max_num_running_reqs",
        "drafts (n-gram)": "live, drafts shortened",
    }


@pytest.mark.parametrize(
    ("old", "new", "off", "missing"),
    [
        ("queued_time", "waiting_time", {"raw statistics", "prompt lengths"}, "FinishedRequestStats.queued_time"),
        (
            "def load_stat",
            "def find_stat",
            {"raw statistics", "prompt lengths", "queue limits"},
            "load_stat_logger_plugin_factories",
        ),
        ("max_num_queued_tokens", "max_waiting_tokens", {"queue limits"}, None),
        ("def check_admission", "def check", {"queue limits"}, None),
        ("is_prefilling", "is_first", {"prompt lengths"}, "update_from_output.is_prefilling"),
        ("prompt_len,", "length,", {"prompt lengths"}, "EngineCoreOutput.prefill_stats"),
        ("long_prefill_token_threshold", "chunk", {"prefill chunk"}, None),
        ("budget = self.max_num_scheduled_tokens", "budget = 5", {"batched tokens"}, None),
        ("max_num_running_reqs", "most", {"max seqs", "steps"}, None),
        ("allocate_slots", "allocate", {"steps"}, "KVCacheManager.allocate_slots"),
        ("def get_request_counts", "def count", {"steps"}, "Scheduler.get_request_counts"),
        ("total_num_scheduled_tokens: int", "total: int", {"steps"}, "SchedulerOutput.total_num_scheduled_tokens"),
        ("spec_token_ids", "drafts", {"drafts (n-gram)"}, None),
        ("def collective_rpc", "def ask", {"memory"}, "Executor.collective_rpc"),
        ("num_gpu_blocks_override", "blocks", {"memory"}, "CacheConfig.num_gpu_blocks_override"),
        (
            "class AsyncScheduler",
            "class Other",
            {"batched tokens", "prefill chunk", "max seqs", "drafts (n-gram)", "steps", "memory", "queue limits"},
            None,
        ),
    ],
)
def test_what_is_missing_is_off_and_named(tmp_path: Path, old: str, new: str, off: set[str], missing: str) -> None:
    verdict = judge(Source(_tree(tmp_path, change=(old, new))))
    assert {name for name, cell in verdict.cells.items() if cell == "off"} == off
    assert missing is None or any(missing in name for name in verdict.missing)


def test_a_wheel_is_read_as_a_folder_is(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-9.8.7-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in TREE.items():
            archive.writestr(f"vllm/{path}", content)
    row = table([wheel]).splitlines()[2]
    assert row.startswith("| 9.8.7 | live |") and "off" not in row


def test_an_empty_tree_is_off_throughout(tmp_path: Path) -> None:
    assert set(judge(Source(tmp_path)).cells.values()) == {"off"}

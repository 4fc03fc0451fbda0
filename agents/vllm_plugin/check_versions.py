#!/usr/bin/env python3
"""Says what of the plugin would work in a release of vLLM, by reading its source: nothing of it is imported or run.

    python check_versions.py vllm-0.32.0.whl [more wheels, or folders that hold a `vllm` package] ...

Prints a table with a row for each, and below it what is missing. It looks for the classes, fields, parameters and
attributes that the plugin touches, each by name; that what bears the name still means the same it cannot see.
"""

import ast
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

LOGGERS, STATS = "v1/metrics/loggers.py", "v1/metrics/stats.py"
SCHEDULER, CONFIG = "v1/core/sched/scheduler.py", "config/scheduler.py"
EXECUTOR, CACHE = "v1/executor/abstract.py", "config/cache.py"
SERVER = "v1/engine/async_llm.py"
COLUMNS = (
    "raw statistics",
    "prompt lengths",
    "batched tokens",
    "prefill chunk",
    "max seqs",
    "drafts (n-gram)",
    "steps",
    "memory",
    "queue limits",
)
YES, NO = "live", "off"


class Verdict(NamedTuple):
    """One row's cells, and what was missed."""

    cells: dict[str, str]
    missing: list[str]


class Source:
    """A `vllm` package's source, out of a wheel or a folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._files: dict[str, ast.Module | None] = {}

    def module(self, path: str) -> ast.Module | None:
        """The parsed file; None when there is none."""
        if path not in self._files:
            content = self._read(f"vllm/{path}")
            self._files[path] = None if content is None else ast.parse(content)
        return self._files[path]

    def _read(self, path: str) -> bytes | None:
        if self.place.is_dir():
            file = self.place / path
            return file.read_bytes() if file.is_file() else None
        with zipfile.ZipFile(self.place) as wheel:
            return wheel.read(path) if path in wheel.namelist() else None

    def release(self) -> str:
        if not self.place.is_dir():
            return self.place.name.split("-")[1]
        found = sorted(path.stem.split("-")[1] for path in self.place.glob("vllm*.dist-info"))
        return found[0] if found else self.place.name

    def class_of(self, path: str, name: str) -> ast.ClassDef | None:
        module = self.module(path)
        nodes = [] if module is None else module.body
        return next((node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name), None)

    def names_in_class(self, path: str, name: str) -> set[str]:
        """Its fields, its methods, and the attributes of `self` that its __init__ sets."""
        node = self.class_of(path, name)
        if node is None:
            return set()
        names = set()
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                names.add(part.target.id)
            elif isinstance(part, ast.FunctionDef):
                names.add(part.name)
                if part.name == "__init__":
                    names |= {name for one in ast.walk(part) for name in _set_on_self(one)}
        return names

    def parameters(self, path: str, class_name: str, method: str) -> list[str]:
        node = self._method(path, class_name, method)
        return [] if node is None else [one.arg for one in (*node.args.args, *node.args.kwonlyargs)]

    def reads(self, path: str, class_name: str, method: str) -> set[str]:
        """Names of all attributes that the method reads, of whatever."""
        node = self._method(path, class_name, method)
        found = [] if node is None else list(ast.walk(node))
        return {one.attr for one in found if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load)}

    def _method(self, path: str, class_name: str, method: str) -> ast.FunctionDef | None:
        node = self.class_of(path, class_name)
        parts = [] if node is None else node.body
        return next((one for one in parts if isinstance(one, ast.FunctionDef) and one.name == method), None)


def _set_on_self(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
        return []
    return [node.attr] if isinstance(node.value, ast.Name) and node.value.id == "self" else []


def judge(source: Source) -> Verdict:
    """What of the plugin would work."""
    missing: list[str] = []

    def wants(where: str, having: set[str], *names: str) -> bool:
        lacking = [name for name in names if name not in having]
        missing.extend(f"{where}.{name}" for name in lacking)
        return not lacking

    scheduler = source.names_in_class(SCHEDULER, "Scheduler")
    reads = source.reads(SCHEDULER, "Scheduler", "schedule")
    config = source.names_in_class(CONFIG, "SchedulerConfig")
    asynchronous = source.class_of("v1/core/sched/async_scheduler.py", "AsyncScheduler") is not None
    hooked = wants("SchedulerConfig", config, "scheduler_cls", "async_scheduling") and asynchronous
    raw = _raw_statistics(source, wants)
    return Verdict(
        {
            "raw statistics": YES if raw else NO,
            "prompt lengths": YES if raw and _prompt_lengths(source, wants) else NO,
            "batched tokens": _cell(hooked, {"max_num_scheduled_tokens"} <= scheduler & reads),
            "prefill chunk": _cell(hooked, "long_prefill_token_threshold" in config & reads),
            "max seqs": _max_seqs(hooked, scheduler, reads),
            "drafts (n-gram)": _drafts(hooked, source, scheduler, reads),
            "steps": _cell(_max_seqs(hooked, scheduler, reads) != NO, _steps(source, scheduler, wants)),
            "memory": _cell(hooked, _memory(source, wants)),
            "queue limits": _cell(hooked, _queue_limits(source, config)),
        },
        missing,
    )


def _cell(hooked: bool, there: bool) -> str:
    return YES if hooked and there else NO


def _max_seqs(hooked: bool, scheduler: set[str], reads: set[str]) -> str:
    if "max_num_active_reqs" in scheduler & reads:
        return _cell(hooked, True)
    there = {"max_num_running_reqs", "running"} <= scheduler & reads
    return "live, by max_num_running_reqs" if hooked and there else NO


def _drafts(hooked: bool, source: Source, scheduler: set[str], reads: set[str]) -> str:
    asked = source.parameters("v1/spec_decode/ngram_proposer.py", "NgramProposer", "propose")
    if "dynamic_sd_lookup" in scheduler & reads and "num_speculative_tokens" in asked:
        return _cell(hooked, True)
    request = source.names_in_class("v1/request.py", "Request")
    there = {"num_spec_tokens", "running"} <= scheduler and "spec_token_ids" in request & reads
    return "live, drafts shortened" if hooked and there else NO


def _steps(source: Source, scheduler: set[str], wants: Callable[..., bool]) -> bool:
    manager = source.names_in_class("v1/core/kv_cache_manager.py", "KVCacheManager")
    output = source.names_in_class("v1/core/sched/output.py", "SchedulerOutput")
    outputs = source.names_in_class("v1/engine/__init__.py", "EngineCoreOutputs")
    request = source.names_in_class("v1/request.py", "Request")
    return all(
        [
            wants("Scheduler", scheduler, "get_request_counts", "update_from_output", "kv_cache_manager"),
            wants("KVCacheManager", manager, "allocate_slots"),
            wants("SchedulerOutput", output, "num_scheduled_tokens", "total_num_scheduled_tokens"),
            wants("EngineCoreOutputs", outputs, "scheduler_stats"),
            wants("Request", request, "request_id", "num_computed_tokens", "num_tokens"),
        ]
    )


def _memory(source: Source, wants: Callable[..., bool]) -> bool:
    """Each figure of a worker is looked for when it is read."""
    executor, cache = source.names_in_class(EXECUTOR, "Executor"), source.names_in_class(CACHE, "CacheConfig")
    return all(
        [
            wants("Executor", executor, "initialize_from_config", "collective_rpc"),
            wants("CacheConfig", cache, "kv_cache_memory_bytes", "num_gpu_blocks_override", "gpu_memory_utilization"),
        ]
    )


def _queue_limits(source: Source, config: set[str]) -> bool:
    """Followed where the stat logger is loaded, the server's process."""
    limits = {"max_num_queued_reqs", "max_num_queued_tokens"}
    loaded = "load_stat_logger_plugin_factories" in _functions(source, LOGGERS)
    return loaded and limits <= config & source.reads(SERVER, "AsyncLLM", "check_admission")


def _functions(source: Source, path: str) -> set[str]:
    module = source.module(path)
    return set() if module is None else {one.name for one in module.body if isinstance(one, ast.FunctionDef)}


def _raw_statistics(source: Source, wants: Callable[..., bool]) -> bool:
    functions = _functions(source, LOGGERS)
    stats, iteration = source.names_in_class(STATS, "SchedulerStats"), source.names_in_class(STATS, "IterationStats")
    drafts = source.names_in_class("v1/spec_decode/metrics.py", "SpecDecodingStats")
    finished = source.names_in_class(STATS, "FinishedRequestStats")
    lists = ("iteration_timestamp", "time_to_first_tokens_iter", "inter_token_latencies_iter", "finished_requests")
    times = ("e2e_latency", "queued_time", "prefill_time", "decode_time")
    return all(
        [
            wants(LOGGERS, functions, "load_stat_logger_plugin_factories"),
            wants("StatLoggerBase", source.names_in_class(LOGGERS, "StatLoggerBase"), "record"),
            wants("SchedulerStats", stats, "num_running_reqs", "num_waiting_reqs", "kv_cache_usage"),
            wants("SchedulerStats", stats, "prefix_cache_stats", "spec_decoding_stats"),
            wants("SpecDecodingStats", drafts, "num_draft_tokens", "num_accepted_tokens"),
            wants("SpecDecodingStats", drafts, "num_accepted_tokens_per_pos"),
            wants("IterationStats", iteration, "num_generation_tokens", "num_preempted_reqs", *lists),
            wants("IterationStats", iteration, "num_prompt_tokens" if "num_prompt_tokens" in iteration else STATS),
            wants("FinishedRequestStats", finished, "finish_reason", *times),
            wants("FinishedRequestStats", finished, "num_prompt_tokens", "num_generation_tokens"),
        ]
    )


def _prompt_lengths(source: Source, wants: Callable[..., bool]) -> bool:
    output = set(source.parameters(STATS, "IterationStats", "update_from_output"))
    finished = set(source.parameters(STATS, "IterationStats", "update_from_finished_request"))
    request = source.names_in_class(STATS, "RequestStateStats")
    answer = source.names_in_class("v1/engine/__init__.py", "EngineCoreOutput")
    length = "prompt_len" in output or wants("EngineCoreOutput", answer, "prefill_stats")
    marks = ("arrival_time", "queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts", "first_token_latency")
    return all(
        [
            length,
            wants("IterationStats.update_from_output", output, "output", "is_prefilling", "req_stats"),
            wants("IterationStats.update_from_finished_request", finished, "req_stats"),
            wants("RequestStateStats", request, *marks),
        ]
    )


def table(places: list[Path]) -> str:
    """The rows, and below them what is missing."""
    lines = ["| vLLM | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    notes = []
    for source in map(Source, places):
        verdict = judge(source)
        lines.append(f"| {source.release()} | " + " | ".join(verdict.cells[name] for name in COLUMNS) + " |")
        notes += [f"{source.release()}: {name} is missing" for name in verdict.missing]
    return "\n".join([*lines, "", *notes])


if __name__ == "__main__":
    sys.stdout.write((table([Path(place) for place in sys.argv[1:]]) if sys.argv[1:] else str(__doc__)) + "\n")

"""What vLLM tells at /metrics, for the stand-in: vLLM's names, buckets and labels, in Prometheus text form."""

import math
import os
import threading
from bisect import bisect_left

TTFT_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
ITL_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
REQUEST_BOUNDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
"""vLLM 0.32, vllm/v1/metrics/loggers.py."""
HISTOGRAMS = {
    "time_to_first_token_seconds": TTFT_BOUNDS,
    "inter_token_latency_seconds": ITL_BOUNDS,
    "request_time_per_output_token_seconds": ITL_BOUNDS,
    "e2e_request_latency_seconds": REQUEST_BOUNDS,
    "request_queue_time_seconds": REQUEST_BOUNDS,
    "request_prefill_time_seconds": REQUEST_BOUNDS,
    "request_decode_time_seconds": REQUEST_BOUNDS,
    "request_inference_time_seconds": REQUEST_BOUNDS,
}
COUNTERS = (
    "prompt_tokens",
    "generation_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "num_preemptions",
    "spec_decode_num_drafts",
    "spec_decode_num_draft_tokens",
    "spec_decode_num_accepted_tokens",
    "admission_rejections",
)
CACHE = (
    'block_size="16",gpu_memory_utilization="0.92",kv_cache_max_concurrency="4.0",kv_cache_memory_bytes="1048576",'
    'kv_cache_size_tokens="4096",num_gpu_blocks="256"'
)
REASONS = ("stop", "length", "abort", "error", "repetition")


class ToyMetrics:
    """Counts, from any thread."""

    def __init__(self, model: str) -> None:
        self._labels = f'engine="0",model_name="{model}"'
        self._lock = threading.Lock()
        self._buckets = {name: [0] * (len(bounds) + 1) for name, bounds in HISTOGRAMS.items()}
        self._sums = dict.fromkeys(HISTOGRAMS, 0.0)
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._finished = dict.fromkeys(REASONS, 0)
        self.gauges = {"num_requests_running": 0.0, "num_requests_waiting": 0.0, "kv_cache_usage_perc": 0.0}

    def observe(self, name: str, value: float) -> None:
        with self._lock:
            self._buckets[name][bisect_left(HISTOGRAMS[name], value)] += 1
            self._sums[name] += value

    def count(self, name: str, amount: int) -> None:
        with self._lock:
            self._counters[name] += amount

    def finish(self, reason: str) -> None:
        with self._lock:
            self._finished[reason] += 1

    def text(self) -> str:
        labels = self._labels
        with self._lock:
            lines = [
                "# TYPE process_start_time_seconds gauge",
                f"process_start_time_seconds {process_start_time()!r}",
            ]
            lines += ["# TYPE vllm:cache_config_info gauge", f'vllm:cache_config_info{{{CACHE},engine="0"}} 1.0']
            for name, value in self.gauges.items():
                lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{labels}}} {value!r}"]
            for name, count in self._counters.items():
                lines += [f"# TYPE vllm:{name}_total counter", f"vllm:{name}_total{{{labels}}} {float(count)}"]
            lines.append("# TYPE vllm:request_success_total counter")
            for reason, count in self._finished.items():
                lines.append(f'vllm:request_success_total{{finished_reason="{reason}",{labels}}} {float(count)}')
            for name, bounds in HISTOGRAMS.items():
                lines.append(f"# TYPE vllm:{name} histogram")
                total = 0
                for bound, count in zip((*bounds, math.inf), self._buckets[name], strict=True):
                    total += count
                    edge = "+Inf" if math.isinf(bound) else repr(bound)
                    lines.append(f'vllm:{name}_bucket{{{labels},le="{edge}"}} {float(total)}')
                lines.append(f"vllm:{name}_count{{{labels}}} {float(total)}")
                lines.append(f"vllm:{name}_sum{{{labels}}} {self._sums[name]!r}")
        return "\n".join(lines) + "\n"


def process_start_time() -> float:
    """When this process began, in Unix seconds (proc(5), field 22 of /proc/self/stat)."""
    with open("/proc/self/stat") as file:
        ticks = float(file.read().rpartition(")")[2].split()[19])
    with open("/proc/stat") as file:
        boot = next(float(line.split()[1]) for line in file if line.startswith("btime"))
    return boot + ticks / os.sysconf("SC_CLK_TCK")

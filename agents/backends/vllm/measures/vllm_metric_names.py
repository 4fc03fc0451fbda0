"""Which of vLLM's metrics is which of ours. Of several names the first that a server has counts, the newest one: a
release that tells both the new and the old name is not counted twice.

Sources: vllm/v1/metrics/loggers.py and vllm/v1/spec_decode/metrics.py of vLLM 0.32, and its list of deprecated metrics.
"""

from controlplane.contract import metrics

HISTOGRAMS: dict[str, tuple[str, ...]] = {
    metrics.TTFT.short: ("vllm:time_to_first_token_seconds",),
    metrics.ITL.short: ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    metrics.TPOT.short: ("vllm:request_time_per_output_token_seconds",),
    metrics.E2E.short: ("vllm:e2e_request_latency_seconds",),
    metrics.QUEUE.short: ("vllm:request_queue_time_seconds", "vllm:time_in_queue_requests"),
    metrics.PREFILL.short: ("vllm:request_prefill_time_seconds",),
    metrics.DECODE.short: ("vllm:request_decode_time_seconds",),
}
"""Histograms in seconds. vLLM observes E2E, its parts and TPOT when a request ends, TTFT with its first token."""

COUNTERS: dict[str, tuple[str, ...]] = {
    metrics.PROMPT_TOKENS.short: ("vllm:request_prompt_tokens_sum", "vllm:prompt_tokens_total"),
    metrics.OUTPUT_TOKENS.short: ("vllm:request_generation_tokens_sum", "vllm:generation_tokens_total"),
    metrics.PREFIX_QUERIES.short: ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    metrics.PREFIX_HITS.short: ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    metrics.DRAFT_TOKENS.short: ("vllm:spec_decode_num_draft_tokens_total",),
    metrics.ACCEPTED_TOKENS.short: ("vllm:spec_decode_num_accepted_tokens_total",),
    metrics.PREEMPTIONS.short: ("vllm:num_preemptions_total",),
    metrics.ESTIMATED_FLOPS.short: ("vllm:estimated_flops_per_gpu_total",),
    metrics.ESTIMATED_READ_BYTES.short: ("vllm:estimated_read_bytes_per_gpu_total",),
    metrics.ESTIMATED_WRITE_BYTES.short: ("vllm:estimated_write_bytes_per_gpu_total",),
}
"""Tokens are those of finished requests, as the contract has them, where vLLM tells those. The old gpu_prefix_cache_*
counted blocks in some releases: their ratio is right, their number then is not one of tokens."""

OF_ONE_GPU = frozenset(
    one.short for one in (metrics.ESTIMATED_FLOPS, metrics.ESTIMATED_READ_BYTES, metrics.ESTIMATED_WRITE_BYTES)
)
"""Counters that each engine of a server has for one of its own GPUs, with --enable-mfu-metrics: their mean counts."""

REQUESTS = "vllm:request_success_total"
REASON = "finished_reason"
REJECTIONS = "vllm:admission_rejections_total"
"""Requests that vLLM answered 503 for its queue limits: they are in no other counter."""
GENERATED = "vllm:generation_tokens_total"
"""Counted with each delivery, the first ones of requests too."""

GAUGES: dict[str, tuple[str, ...]] = {
    metrics.KV_USAGE.short: ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    metrics.RUNNING.short: ("vllm:num_requests_running",),
    metrics.WAITING.short: ("vllm:num_requests_waiting",),
}

OUTPUT_LENGTH_BUCKET = "vllm:request_generation_tokens_bucket"
"""Requests with one output token are those up to 1.0; vLLM counts their time per output token as 0."""
START_TIME = "process_start_time_seconds"
CACHE_CONFIG = "vllm:cache_config_info"
MODEL = "model_name"

CUMULATIVE: frozenset[str] = frozenset(
    [f"{name}_{part}" for names in HISTOGRAMS.values() for name in names for part in ("bucket", "sum")]
    + [name for names in COUNTERS.values() for name in names]
    + [REQUESTS, REJECTIONS, GENERATED, OUTPUT_LENGTH_BUCKET]
)
"""Samples that only grow while a server lives."""
PRESENT: frozenset[str] = frozenset([name for names in GAUGES.values() for name in names])

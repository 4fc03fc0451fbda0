"""Names of metrics and attributes: each a constant, used in every layer, so that one search finds a datum's path.

Semantic-convention names where they exist (OpenTelemetry GenAI, gen_ai.server.*), `tailwright.*` for the rest.
"""

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    HISTOGRAM = "histogram"  # Exponential histogram on the fixed axis, delta.
    SUM = "sum"  # Monotonic, delta.
    GAUGE = "gauge"  # Last value in the window.


@dataclass(frozen=True, eq=False)
class Metric:
    """One metric: its name on the wire, its short name in the API, unit (UCUM) and kind.

    Each is one object, told apart by being it: hashing five texts would cost more than counting a value under it.
    """

    name: str
    short: str
    unit: str
    kind: MetricKind
    help: str


_H, _S, _G = MetricKind.HISTOGRAM, MetricKind.SUM, MetricKind.GAUGE

TTFT = Metric("gen_ai.server.time_to_first_token", "ttft", "s", _H, "Request received to first token sent.")
TPOT = Metric("gen_ai.server.time_per_output_token", "tpot", "s", _H, "(e2e - ttft) / (output tokens - 1).")
E2E = Metric("gen_ai.server.request.duration", "e2e", "s", _H, "Request received to last byte sent.")
ITL = Metric("tailwright.request.inter_token_latency", "itl", "s", _H, "Each gap between deliveries.")
RECEIVE = Metric("tailwright.request.receive.duration", "receive", "s", _H, "Reading and parsing the request.")
TOKENIZE = Metric("tailwright.request.tokenize.duration", "tokenize", "s", _H, "Text to token ids.")
QUEUE = Metric("tailwright.request.queue.duration", "queue", "s", _H, "Queued until first scheduled.")
PREFILL = Metric("tailwright.request.prefill.duration", "prefill", "s", _H, "First scheduled to first token.")
DECODE = Metric("tailwright.request.decode.duration", "decode", "s", _H, "First token to last token.")
SEND = Metric("tailwright.request.send.duration", "send", "s", _H, "Last token to last byte sent.")
UNACCOUNTED = Metric("tailwright.request.unaccounted.duration", "unaccounted", "s", _H, "e2e less all its parts.")

STEP_SCHEDULE = Metric("tailwright.step.schedule.duration", "step_schedule", "s", _H, "Choosing a step's work.")
STEP_DRAFT = Metric("tailwright.step.draft.duration", "step_draft", "s", _H, "Proposing drafts.")
STEP_FORWARD = Metric("tailwright.step.forward.duration", "step_forward", "s", _H, "The model's forward pass.")
STEP_ATTENTION = Metric("tailwright.step.attention.duration", "step_attention", "s", _H, "Attention, within forward.")
STEP_SAMPLE = Metric("tailwright.step.sample.duration", "step_sample", "s", _H, "Logits to tokens, drafts verified.")
STEP_COMMIT = Metric("tailwright.step.commit.duration", "step_commit", "s", _H, "Tokens handed to their requests.")

KV_USAGE = Metric("tailwright.kv_cache.usage", "kv_usage", "1", _G, "Share of KV-cache blocks in use, 0..1.")
RUNNING = Metric("tailwright.requests.running", "running", "{request}", _G, "Requests running.")
WAITING = Metric("tailwright.requests.waiting", "waiting", "{request}", _G, "Requests waiting.")
UNACCOUNTED_SHARE = Metric(
    "tailwright.request.unaccounted.share",
    "unaccounted_share",
    "1",
    _G,
    "Sum of unaccounted / sum of e2e in the report.",
)
REQUESTS = Metric("tailwright.requests.finished", "requests", "{request}", _S, "Requests finished, by finish reason.")
PROMPT_TOKENS = Metric(
    "tailwright.prompt_tokens", "prompt_tokens", "{token}", _S, "Prompt tokens of finished requests."
)
OUTPUT_TOKENS = Metric(
    "tailwright.output_tokens", "output_tokens", "{token}", _S, "Output tokens of finished requests."
)
DELIVERED_TOKENS = Metric(
    "tailwright.request.inter_token_latency.tokens",
    "delivered_tokens",
    "{token}",
    _S,
    "Tokens of the deliveries behind itl's gaps; over itl's count: tokens a delivery holds, above 1 with drafts.",
)
PREFIX_QUERIES = Metric("tailwright.prefix_cache.queries", "prefix_queries", "{token}", _S, "Prompt tokens looked up.")
PREFIX_HITS = Metric("tailwright.prefix_cache.hits", "prefix_hits", "{token}", _S, "Prompt tokens found.")
DRAFT_TOKENS = Metric("tailwright.spec_decode.draft_tokens", "draft_tokens", "{token}", _S, "Draft tokens proposed.")
ACCEPTED_TOKENS = Metric(
    "tailwright.spec_decode.accepted_tokens", "accepted_tokens", "{token}", _S, "Draft tokens accepted."
)
STEP_LIMIT = Metric("tailwright.engine.step_limit", "step_limit", "{step}", _S, "Engine steps, by what limited them.")
ESTIMATED_FLOPS = Metric(
    "tailwright.estimated_flops_per_gpu",
    "estimated_flops_per_gpu",
    "{operation}",
    _S,
    "Floating point operations of steps, by the model's sizes, of one GPU.",
)
ESTIMATED_READ_BYTES = Metric(
    "tailwright.estimated_read_bytes_per_gpu",
    "estimated_read_bytes_per_gpu",
    "By",
    _S,
    "Bytes that steps read from memory, by the model's sizes, of one GPU.",
)
ESTIMATED_WRITE_BYTES = Metric(
    "tailwright.estimated_write_bytes_per_gpu",
    "estimated_write_bytes_per_gpu",
    "By",
    _S,
    "Bytes that steps wrote to memory, by the model's sizes, of one GPU.",
)
PREEMPTIONS = Metric("tailwright.preemptions", "preemptions", "{request}", _S, "Requests preempted and recomputed.")
EVENTS_MISSED = Metric(
    "tailwright.agent.events_missed", "events_missed", "{event}", _S, "Engine events the agent never saw."
)
SPOOL_DEPTH = Metric("tailwright.agent.spool_depth", "spool_depth", "{report}", _G, "Reports not yet acknowledged.")
SPOOL_DROPPED = Metric(
    "tailwright.agent.spool_dropped", "spool_dropped", "{report}", _S, "Reports dropped: the spool was full."
)
CLOCK_OFFSET = Metric(
    "tailwright.agent.clock_offset",
    "clock_offset",
    "s",
    _G,
    "The service's clock less this node's; above 0: node behind.",
)
CLOCK_OFFSET_ERROR = Metric(
    "tailwright.agent.clock_offset_error", "clock_offset_error", "s", _G, "The offset is off by at most so much."
)

CLIENT_E2E = Metric(
    "gen_ai.client.operation.duration", "client_e2e", "s", _H, "Seen by the client: request made to last byte read."
)
CLIENT_TTFT = Metric(
    "tailwright.client.time_to_first_token", "client_ttft", "s", _H, "Seen by the client: request made to first output."
)
CLIENT_TPOT = Metric(
    "tailwright.client.time_per_output_token",
    "client_tpot",
    "s",
    _H,
    "Seen by the client: (e2e - ttft) / (tokens - 1).",
)
CLIENT_ITL = Metric(
    "tailwright.client.inter_token_latency",
    "client_itl",
    "s",
    _H,
    "Seen by the client: each gap between pieces of output.",
)
CLIENT_CONNECT = Metric(
    "tailwright.client.connect.duration", "client_connect", "s", _H, "Name lookup and TCP connect, of new connections."
)
CLIENT_TLS = Metric("tailwright.client.tls.duration", "client_tls", "s", _H, "TLS handshake, of new connections.")
CLIENT_NETWORK = Metric(
    "tailwright.client.network.duration",
    "client_network",
    "s",
    _H,
    "Client's e2e less its connection setup, less server's.",
)
CLIENT_NETWORK_TTFT = Metric(
    "tailwright.client.network.first_token.duration",
    "client_network_ttft",
    "s",
    _H,
    "The same for time to first token.",
)
CLIENT_REQUESTS = Metric(
    "tailwright.client.requests", "client_requests", "{request}", _S, "Requests seen by clients, by finish reason."
)
CLIENT_DROPPED = Metric(
    "tailwright.client.dropped", "client_dropped", "{report}", _S, "Reports of clients dropped unsent."
)

HOST_PRESSURE_CPU = Metric(
    "tailwright.host.pressure.cpu",
    "host_pressure_cpu",
    "1",
    _G,
    "Share of time in which something waited for a CPU (PSI).",
)
HOST_PRESSURE_MEMORY = Metric(
    "tailwright.host.pressure.memory",
    "host_pressure_memory",
    "1",
    _G,
    "Share of time in which something was stalled for want of memory (PSI).",
)
HOST_PRESSURE_IO = Metric(
    "tailwright.host.pressure.io", "host_pressure_io", "1", _G, "Share of time in which something waited for I/O (PSI)."
)
CONTAINER_PRESSURE_CPU = Metric(
    "tailwright.host.container.pressure.cpu",
    "container_pressure_cpu",
    "1",
    _G,
    "The same in the engine's control group.",
)
CONTAINER_PRESSURE_MEMORY = Metric(
    "tailwright.host.container.pressure.memory",
    "container_pressure_memory",
    "1",
    _G,
    "The same in the engine's control group.",
)
CONTAINER_PRESSURE_IO = Metric(
    "tailwright.host.container.pressure.io", "container_pressure_io", "1", _G, "The same in the engine's control group."
)
HOST_CPUS = Metric("tailwright.host.cpus", "host_cpus", "{cpu}", _G, "CPUs of the host.")
HOST_STEAL = Metric(
    "tailwright.host.steal",
    "host_steal",
    "1",
    _G,
    "Share of the CPUs' time that the hypervisor gave to other machines.",
)
HOST_THROTTLED = Metric(
    "tailwright.host.throttled",
    "host_throttled",
    "1",
    _G,
    "Share of quota periods in which the container's CPU ran out.",
)
HOST_CPU_LIMIT = Metric(
    "tailwright.host.cpu_limit", "host_cpu_limit", "{cpu}", _G, "The container's CPU quota in CPUs; without one, all."
)
HOST_RUN_QUEUE = Metric(
    "tailwright.host.run_queue",
    "host_run_queue",
    "{task}",
    _G,
    "Tasks that run or wait for a CPU, at the window's end.",
)
HOST_ENGINE_CPU = Metric(
    "tailwright.host.engine_cpu", "host_engine_cpu", "1", _G, "Share of the host's CPU time that the engine used."
)
HOST_FLEET_CPU = Metric(
    "tailwright.host.fleet_cpu",
    "host_fleet_cpu",
    "1",
    _G,
    "The same of the pool's other engines on this host, and agents.",
)
HOST_OTHER_CPU = Metric(
    "tailwright.host.other_cpu", "host_other_cpu", "1", _G, "The same of everything that does not serve this pool."
)
HOST_RUN_DELAY = Metric(
    "tailwright.host.run_delay",
    "host_run_delay",
    "1",
    _G,
    "Of the time in which the engine's threads could run, the share in which they waited for a CPU.",
)
HOST_INVOLUNTARY_SWITCHES = Metric(
    "tailwright.host.involuntary_switches",
    "host_involuntary_switches",
    "{switch}",
    _S,
    "Times that a thread of the engine lost its CPU to another.",
)
HOST_MAJOR_FAULTS = Metric(
    "tailwright.host.major_faults", "host_major_faults", "{fault}", _S, "Pages that the engine waited for a disk for."
)
HOST_MEMORY_AVAILABLE = Metric(
    "tailwright.host.memory_available",
    "host_memory_available",
    "1",
    _G,
    "Share of memory left: of the host's or of the container's limit, whichever is less.",
)
HOST_OUT_OF_MEMORY_KILLS = Metric(
    "tailwright.host.out_of_memory_kills",
    "host_out_of_memory_kills",
    "{process}",
    _S,
    "Processes of the container killed for want of memory.",
)

GPU_CLOCK = Metric("tailwright.gpu.clock", "gpu_clock", "MHz", _G, "SM clock of the engine's slowest GPU.")
GPU_CLOCK_MAX = Metric("tailwright.gpu.clock_max", "gpu_clock_max", "MHz", _G, "The highest SM clock of that GPU.")
GPU_THROTTLE_REASON = Metric(
    "tailwright.gpu.throttle_reason",
    "gpu_throttle_reason",
    "1",
    _G,
    "Why clocks are held down: NVML's reasons as bits.",
)
GPU_TEMPERATURE = Metric("tailwright.gpu.temperature", "gpu_temperature", "Cel", _G, "Of the engine's hottest GPU.")
GPU_POWER = Metric("tailwright.gpu.power", "gpu_power", "W", _G, "Of the GPU nearest to its power limit.")
GPU_POWER_LIMIT = Metric("tailwright.gpu.power_limit", "gpu_power_limit", "W", _G, "The power limit of that GPU.")
GPU_MEMORY = Metric("tailwright.gpu.memory", "gpu_memory", "1", _G, "Share of memory in use, of the fullest GPU.")
GPU_ECC = Metric("tailwright.gpu.ecc", "gpu_ecc", "{error}", _S, "Uncorrected ECC errors.")
GPU_XID = Metric("tailwright.gpu.xid", "gpu_xid", "1", _G, "Number of the last XID error in the window, 0 without one.")
GPU_OTHER_UTILIZATION = Metric(
    "tailwright.gpu.other_utilization", "gpu_other_utilization", "1", _G, "Share of SM time used by other processes."
)

REQUEST_PARTS: tuple[Metric, ...] = (RECEIVE, TOKENIZE, QUEUE, PREFILL, DECODE, SEND)
"""e2e is the sum of these and UNACCOUNTED."""

HOST_METRICS: tuple[Metric, ...] = tuple(
    value
    for value in list(globals().values())
    if isinstance(value, Metric) and value.name.startswith(("tailwright.host.", "tailwright.gpu."))
)
"""What an agent measures of the machine under its engine, in the order in which people read it."""

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
BY_SHORT: dict[str, Metric] = {metric.short: metric for metric in METRICS}


@dataclass(frozen=True)
class Attribute:
    """One dimension: its name on the wire and its label in the API."""

    name: str
    label: str
    resource: bool = False


NODE = Attribute("service.instance.id", "node", resource=True)
POOL = Attribute("tailwright.pool", "pool", resource=True)
MODEL = Attribute("gen_ai.request.model", "model")
REVISION = Attribute("tailwright.config.revision", "revision")
PROMPT_BUCKET = Attribute("tailwright.prompt_bucket", "prompt_bucket")
CACHE_CLASS = Attribute("tailwright.cache_class", "cache_class")
TENANT = Attribute("tailwright.tenant", "tenant")
REGION = Attribute("tailwright.region", "region")
FINISH_REASON = Attribute("gen_ai.response.finish_reason", "finish_reason")
LIMIT = Attribute("tailwright.limit", "limit")
POSITION = Attribute("tailwright.position", "position")
"""Of a draft token in its draft, 0 for the first, as vLLM counts."""
ROLE = Attribute("tailwright.node.role", "role")
"""Told by trial nodes alone, as `NodeRole.TRIAL`; what lacks it is serving traffic."""

ATTRIBUTES: tuple[Attribute, ...] = (
    NODE,
    POOL,
    MODEL,
    REVISION,
    PROMPT_BUCKET,
    CACHE_CLASS,
    TENANT,
    REGION,
    FINISH_REASON,
    LIMIT,
    POSITION,
    ROLE,
)
LABEL_OF: dict[str, str] = {attribute.name: attribute.label for attribute in ATTRIBUTES}
LABELS: tuple[str, ...] = tuple(attribute.label for attribute in ATTRIBUTES)

SUMMED_BY: dict[Metric, Attribute] = {
    REQUESTS: FINISH_REASON,
    STEP_LIMIT: LIMIT,
    DRAFT_TOKENS: POSITION,
    ACCEPTED_TOKENS: POSITION,
}
"""Sums that are told apart by one attribute more than the others."""
MOST_POSITIONS = 16
"""Of draft tokens: those further back have no position of their own."""

WINDOW_S = 5.0
"""Width of the finest window of the store, and the default report interval. Windows start at multiples of it."""
WINDOW_NS = int(WINDOW_S * 1_000_000_000)

# One span per finished request, POST /v1/traces: the workload record. Durations in seconds.
SPAN_REQUEST = "llm_request"
SPAN_INPUT_TOKENS = "gen_ai.usage.input_tokens"
SPAN_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
SPAN_CACHED_TOKENS = "tailwright.usage.cached_tokens"
SPAN_BLOCK_SIZE = "tailwright.prompt.block_size"
SPAN_BLOCK_HASHES = "tailwright.prompt.block_hashes"
SPAN_REQUEST_ID = "gen_ai.request.id"
SPAN_PART_PREFIX = "tailwright.part."  # + metric short name, for e2e, ttft, tpot and each part
SPAN_FINISH_REASON = "gen_ai.response.finish_reason"
SPAN_BATCH_PREFIX = "tailwright.batch."  # + one of BATCH_FIGURES
BATCH_FIGURES: tuple[str, ...] = ("running", "waiting", "kv_usage", "step_tokens")
"""What the engine ran when a request's first token came. With BATCH_PEAK before it: the most while it lived."""
BATCH_PEAK = "peak_"


class CacheClass(StrEnum):
    """How much of a prompt the prefix cache held."""

    MISS = "miss"  # Nothing.
    PARTIAL = "partial"  # Something, less than half.
    HIT = "hit"  # Half or more.


def cache_class(cached_tokens: int, prompt_tokens: int) -> CacheClass:
    if cached_tokens <= 0:
        return CacheClass.MISS
    return CacheClass.HIT if 2 * cached_tokens >= prompt_tokens else CacheClass.PARTIAL


PROMPT_BUCKET_EDGES: tuple[tuple[int, str], ...] = (
    (128, "<=128"),
    (512, "<=512"),
    (2048, "<=2k"),
    (8192, "<=8k"),
    (32768, "<=32k"),
)
PROMPT_BUCKETS: tuple[str, ...] = (*(label for _, label in PROMPT_BUCKET_EDGES), ">32k")


def prompt_bucket(prompt_tokens: int) -> str:
    """The prompt-length class of a request, by its number of prompt tokens."""
    for edge, label in PROMPT_BUCKET_EDGES:
        if prompt_tokens <= edge:
            return label
    return PROMPT_BUCKETS[-1]

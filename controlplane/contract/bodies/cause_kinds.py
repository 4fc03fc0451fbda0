"""The kinds of causes a diagnosis can name, as `Diagnosis.causes[].cause` says them."""

from enum import StrEnum


class CauseKind(StrEnum):
    """What a slowdown comes from."""

    CONFIG_CHANGE = "config_change"  # A configuration revision reached the pool.
    CHANGE_EVENT = "change_event"  # Others say that they did something, such as a deploy, shortly before.
    LOAD = "load"  # More requests arrived.
    PROMPT_MIX = "prompt_mix"  # Prompts got longer.
    ANSWER_MIX = "answer_mix"  # Answers got longer.
    CACHE_MISS = "cache_miss"  # Fewer prompts were found in the prefix cache.
    PREEMPTION = "preemption"  # Running requests were put back for want of memory.
    KV_PRESSURE = "kv_pressure"  # The KV cache is full.
    HOST = "host"  # Something else disturbs a node's host: `node` says whose.
    ACCEPTANCE = "acceptance"  # Fewer draft tokens were accepted, of those proposed or of all tokens.
    TENANT_MIX = "tenant_mix"  # One tenant sent a larger share of the requests.
    ONE_GROUP = "one_group"  # The requests of one prompt bucket, cache class or tenant alone are slower.
    ONE_NODE = "one_node"  # One node alone is slower, and nothing measured there says why.
    UNKNOWN = "unknown"  # Nothing else that is measured changed.

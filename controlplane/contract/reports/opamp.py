"""What agent and service call things in OpAMP messages, beside the names of the specification."""

import secrets

ENGINE_CONFIG = "engine.json"
"""The entry of an offered configuration that holds a revision."""
EFFECTIVE_CONFIG = "effective.json"
"""The entry of a reported one that holds what the engine runs."""

LEASE_S = 600.0
"""How long a node that hears nothing keeps a configuration that is on trial, unless the service says otherwise."""
LEASE_ENDED = "lease ended: "
"""Begins the error of an offer that a node has left by itself for the promoted configuration."""

REPLACED_CODE = 4409
"""Close code of a WebSocket whose node a newer one speaks for (RFC 6455, 7.4.2: from 4000 on applications' own)."""
REPLACED_PAUSE_S = 30.0
"""After which an agent that was closed so, or was not heard for a newer one, may come again."""

ROLE = "tailwright.role"
BACKEND = "tailwright.backend"
ENGINE_URL = "tailwright.engine_url"
ENGINE_PROCESS = "tailwright.engine.process"
"""Which process the engine is, as "SOURCE:ID" (`engine_event.Hello`)."""
ENGINE_VERSION = "tailwright.engine.version"

SERVING = "serving"
SERVING_DEGRADED = "serving, degraded"
"""Status of a healthy component that tells in last_error what is missing."""
DECOMPOSITION = "decomposition"
"""Component whose status is the unaccounted share, as decimal text."""


def new_instance_uid(unix_ms: int) -> bytes:
    """A UUID version 7 (RFC 9562, 5.7): 48 bits of milliseconds, then random bits."""
    value = (unix_ms & (2**48 - 1)) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return value.to_bytes(16, "big")

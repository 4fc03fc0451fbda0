"""Which paths a client reaches through the proxy: what serves requests, never what manages the server.

vLLM 0.32 has on one port what clients ask and what only its owner should (`/sleep`, `/collective_rpc`,
`/reset_prefix_cache`, `/v1/load_lora_adapter`, ... by its development mode or by environment variables).
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

FOLDERS: Final = ("/v1/", "/v2/", "/inference/")
_NAMED = "health ping load version metrics tokenize detokenize tokenizer_info pooling classify score rerank invocations"
PATHS: Final = frozenset(f"/{name}" for name in _NAMED.split(" "))
"""What vLLM's documentation calls its serving API, and what monitors ask."""
MANAGING: Final = frozenset({"/v1/load_lora_adapter", "/v1/unload_lora_adapter"})


def passes(target: str, more: Sequence[str] = ()) -> bool:
    """Whether the request target (path and query, as written) may go on; `more` are further paths that may.

    The path is compared as the server will read it, percent signs decoded.
    """
    path = unquote(target.partition("?")[0])
    if path in more:
        return True
    if ".." in path.split("/") or "//" in path or path in MANAGING:
        return False
    return path in PATHS or path.startswith(FOLDERS)

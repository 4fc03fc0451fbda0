"""The contract's error body with what OpenAI's clients look for beside it."""

from typing import Any

from controlplane.contract.errors import TailwrightError

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def openai_body(error: TailwrightError) -> dict[str, Any]:
    """{"error": {"code", "message", "detail", "type", "param"}}; param is the field that was wrong, or null."""
    body = error.body()
    server = "server_error" if error.status >= 500 else "invalid_request_error"
    body["error"]["type"] = _TYPES.get(error.status, server)
    body["error"]["param"] = error.detail.get("field")
    return body

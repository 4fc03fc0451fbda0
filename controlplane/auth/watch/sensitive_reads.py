"""Which reads are recorded: what names people, or tells of single requests.

Figures over many requests (quantiles, rates, heat maps), nodes, alerts, rollouts and configurations are the
organization's, and are not.
"""

REQUEST = "/api/v1/requests/{request_id:path}"
PROMPTS = "/api/v1/prompt-sets/{name}/text"
SENSITIVE = frozenset(
    {
        *("/api/v1/requests", REQUEST, "/api/v1/export", "/api/v1/exemplars", "/api/v1/workload"),
        *("/api/v1/ledger", "/api/v1/tokens", "/api/v1/sessions", "/api/v1/people"),
        "/api/v1/people/{person_id:int}/data",
        PROMPTS,
    }
)
"""As routes are declared; of each, its GET."""


def sensitive_route(path: str) -> str | None:
    """The route of an address where reading it is recorded; None of any other."""
    if path.startswith("/api/v1/requests/"):
        return REQUEST
    if path.startswith("/api/v1/prompt-sets/") and path.endswith("/text"):
        return PROMPTS
    return path if path in SENSITIVE else None

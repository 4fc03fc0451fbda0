"""The spans of time that pages offer."""

from collections.abc import Mapping

from controlplane.contract.errors import BadRequest

STEP_S = {"5m": 5, "15m": 10, "1h": 30, "6h": 180, "24h": 600}
"""Each span with the step, in seconds, that gives about a hundred points."""

STEP_OF = {span: f"{step_s}s" for span, step_s in STEP_S.items()}
"""The same as the API takes it."""

USUAL = "15m"


def span_of(params: Mapping[str, str]) -> str:
    """The asked span. Raises `BadRequest` for one that is not offered."""
    span = params.get("span") or USUAL
    if span not in STEP_OF:
        raise BadRequest(f"span: {span[:20]!r} is none of {', '.join(STEP_OF)}", field="span")
    return span

"""How alerts put figures, places and errors into words. Pure."""

from typing import Any

from controlplane.contract.histogram import error_text, is_coarse


def percentile(q: float) -> str:
    """0.99 as p99, 0.999 as p99.9."""
    return f"p{100 * q:.6g}"


def reach_of_bucket(bucket: str) -> str:
    return f"prompts of {bucket} tokens"


def reach_of_node(node: str) -> str:
    return f"node {node}"


def reach_of_stage(stage: str) -> str:
    return f"stage {stage}"


def accuracy(relative_error: float) -> dict[str, Any]:
    """What an alert's evidence says of its quantiles' error: {"accuracy": {...}}, empty where they are exact timings.

    Counts above a limit or a baseline's edge then lie between the sender's own bucket bounds, spread evenly in log
    space: growth inside one bucket cannot be seen, and a small step over a bound looks like a large one.
    """
    if not is_coarse(relative_error):
        return {}
    return {
        "accuracy": {
            "relative_error": round(relative_error, 4),
            "statement": (
                f"{error_text(relative_error)}; values inside a bucket are taken as spread evenly, so a change smaller "
                "than a bucket is not seen, and one across a bound looks larger than it is"
            ),
        }
    }

"""How alerts put figures and places into words. Pure."""


def percentile(q: float) -> str:
    """0.99 as p99, 0.999 as p99.9."""
    return f"p{100 * q:.6g}"


def duration(seconds: float) -> str:
    """Two or three significant digits with a unit that fits."""
    if seconds < 0.1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def reach_of_bucket(bucket: str) -> str:
    return f"prompts of {bucket} tokens"


def reach_of_stage(stage: str) -> str:
    return f"stage {stage}"

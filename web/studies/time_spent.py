"""What a study has taken of its time and what is left of it, in a sentence; and what that cost. Pure."""

from controlplane.contract.bodies.studies import Study, StudyState

_UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0))


def spent_says(study: Study) -> str:
    """Empty before a worker has begun it, and of a study in production, which takes no trial node."""
    spent_s, spec = study.active_s, study.spec
    if spec.online is not None or not spent_s:
        return ""
    cost = ""
    if spec.node_hour_price is not None:
        cost = f", {spent_s / 3600 * spec.node_hour_price:.2f} {spec.currency} at {spec.node_hour_price:g} an hour"
    if study.state is not StudyState.RUNNING:
        return f"It took {about(spent_s)} of a trial node{cost}."
    left_s = spec.max_duration_s - spent_s
    left = f"at most {about(left_s)} left" if left_s > 0 else "it ends with the run under way"
    return f"{about(spent_s)} of {about(spec.max_duration_s)} taken, {left}{cost}."


def about(seconds: float) -> str:
    """To the nearest of the largest unit of which there are two."""
    for unit, size in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"

"""From a symptom's expression to its courses: which form is judged by which module, and what each wants read."""

from collections.abc import Iterable

from controlplane.alerts.symptoms import (
    arm_course,
    level_course,
    ratio_course,
    silence_course,
    trend_course,
)
from controlplane.alerts.symptoms.expressions import Cohort, Levels, Ratio, Silence, Tail, Trend
from controlplane.alerts.symptoms.symptom_catalogue import Symptom
from controlplane.alerts.symptoms.symptom_course import Course, Scene
from controlplane.alerts.windows.window_table import Source


def wanted_of(symptom: Symptom) -> dict[Source, float]:
    """What is read, and how many seconds before an end."""
    form = symptom.expression
    if isinstance(form, Levels):
        return dict.fromkeys(level_course.sources_of(form), form.window_s)
    if isinstance(form, Ratio):
        return dict.fromkeys(ratio_course.sources_of(form), form.window_s)
    if isinstance(form, Trend):
        return dict.fromkeys(trend_course.sources_of(form), form.window_s)
    if isinstance(form, Silence):
        return dict.fromkeys(silence_course.sources_of(form), form.remembered_s)
    if isinstance(form, Tail | Cohort):
        return dict.fromkeys(arm_course.sources_of(form), arm_course.look_back_s(form))
    return {}


def courses_of(symptom: Symptom, limit: float, scene: Scene) -> Iterable[Course]:
    """One for each node or pool that something can be said of."""
    form, resolve_at = symptom.expression, symptom.resolve_at
    if isinstance(form, Levels):
        return level_course.courses(form, limit, resolve_at, scene)
    if isinstance(form, Ratio):
        return ratio_course.courses(form, limit, resolve_at, scene)
    if isinstance(form, Trend):
        return trend_course.courses(form, limit, resolve_at, scene)
    if isinstance(form, Silence):
        return silence_course.courses(form, limit, scene)
    if isinstance(form, Tail):
        return arm_course.tail_courses(form, limit, resolve_at, scene)
    if isinstance(form, Cohort):
        return arm_course.cohort_courses(form, limit, resolve_at, scene)
    return ()

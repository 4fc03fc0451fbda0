"""Symptoms of the catalogue: each node's or pool's course by the symptom's expression, as findings.

Guarantee: what is judged is in the catalogue (or in the rule, which may replace its threshold and patience); an alert
is called over only where the value is back beyond `resolve_at` of the limit.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from controlplane.alerts.conditions.finding import Finding, Patience, Reading
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Snapshot, Sources
from controlplane.alerts.symptoms.prefix_divergence import divergence
from controlplane.alerts.symptoms.symptom_catalogue import Symptom, symptom
from controlplane.alerts.symptoms.symptom_course import Course, Scene
from controlplane.alerts.symptoms.symptom_judge import courses_of, wanted_of
from controlplane.alerts.windows.history import instant
from controlplane.alerts.windows.window_table import Source, WindowTables
from controlplane.contract.bodies.alerts import SymptomCondition
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.duration_text import duration_text
from controlplane.contract.metrics import NODE, PREFILL, PREFIX_HITS, PREFIX_QUERIES
from controlplane.telemetry import Question, Span

log = logging.getLogger(__name__)

EXPLAINED_S = 600.0
"""So much of the request log explains where prompts part."""
HOURS_FROM_S = 7200.0


class SymptomKind(Kind[SymptomCondition]):
    condition = SymptomCondition

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self._tables = WindowTables(sources.telemetry, sources.width_s)

    @classmethod
    def check(cls, condition: SymptomCondition) -> None:
        symptom(condition.symptom)

    def prepare(self, jobs: Sequence[Job[SymptomCondition]], seen: Snapshot, end: datetime) -> None:
        wanted: dict[Source, tuple[int, int]] = {}
        for job in jobs:
            entry = symptom(job.condition.symptom)
            first_s = min(ends_of(job, entry, end), default=end.timestamp())
            for source, back_s in wanted_of(entry).items():
                first = math.floor((first_s - back_s) / source.step_s)
                known = wanted.get(source, (first, 0))
                wanted[source] = (min(known[0], first), math.floor(end.timestamp() / source.step_s))
        self._tables.cover(wanted, {job.pool: seen.where(job.pool) for job in jobs})

    def judge(self, job: Job[SymptomCondition], seen: Snapshot, end: datetime) -> Findings:
        entry = symptom(job.condition.symptom)
        ends = ends_of(job, entry, end)
        if not ends:
            return Findings([])
        scene = self._scene(job, seen, entry, ends)
        courses = list(courses_of(entry, limit_of(job.condition, entry), scene))
        found = [finding for course in courses for finding in self._findings(job, entry, scene, course)]
        there = [labels_of(job, course.subject) for course in courses]
        gone = [row.labels for row in job.open_alerts.values() if row.labels not in there]
        found += [Finding(labels, instant(ends[-1]), _of_gone(labels, scene)) for labels in gone]
        return Findings(sorted(found, key=lambda one: one.at))

    def _scene(self, job: Job[SymptomCondition], seen: Snapshot, entry: Symptom, ends: Sequence[float]) -> Scene:
        where = seen.where(job.pool)
        nodes = where.get(NODE.label)
        return Scene(
            pool=job.pool,
            where=where,
            nodes=[nodes] if isinstance(nodes, str) else nodes,
            enrolled={one.node: one for one in seen.by_pool.get(job.pool, []) if one.role is NodeRole.SERVING},
            open_nodes={
                row.labels[NODE.label]: row.started_at.timestamp()
                for row in job.open_alerts.values()
                if NODE.label in row.labels
            },
            ends=ends,
            every_s=entry.every_s,
            tables=self._tables,
            telemetry=self._sources.telemetry,
        )

    def _findings(self, job: Job[SymptomCondition], entry: Symptom, scene: Scene, course: Course) -> Sequence[Finding]:
        """From the first end on that matters: what is calm, or cannot be said, of no alert is no news."""
        labels = labels_of(job, course.subject)
        first = 0
        if job.alert(labels) is None:
            breaches = np.flatnonzero(course.breach)
            first = int(breaches[0]) if len(breaches) else len(scene.ends)
        found = [self._finding(job, entry, scene, course, labels, at) for at in range(first, len(scene.ends))]
        return found if entry.explain is None else self._explained(job, entry, scene, labels, found)

    def _explained(
        self,
        job: Job[SymptomCondition],
        entry: Symptom,
        scene: Scene,
        labels: dict[str, str],
        found: Sequence[Finding],
    ) -> Sequence[Finding]:
        """Once, where the alert fires: it is a lot to read."""
        breaches = [place for place, one in enumerate(found) if one.reading is Reading.BREACH]
        if not breaches or job.is_firing(labels):
            return found
        row, for_s = job.alert(labels), for_of(job.condition, entry)
        begun = found[breaches[0]].at if row is None else row.breach_since
        fires = next((n for n in breaches if (found[n].at - begun).total_seconds() >= for_s), None)
        if fires is None:
            return found
        one = found[fires]
        told = replace(one, evidence={**one.evidence, "divergence": self._divergence(scene, one.at)})
        return [*found[:fires], told, *found[fires + 1 :]]

    def _finding(
        self,
        job: Job[SymptomCondition],
        entry: Symptom,
        scene: Scene,
        course: Course,
        labels: dict[str, str],
        at: int,
    ) -> Finding:
        patience = Patience(for_of(job.condition, entry), entry.resolve_s)
        time = instant(scene.ends[at])
        if not course.breach[at]:
            return Finding(labels, time, Reading.CLEAR if course.calm[at] else Reading.HOLD, patience)
        limit = limit_of(job.condition, entry)
        evidence: dict[str, Any] = {"limit": limit, "measured": float(course.value[at]), **course.tell(at)}
        return Finding(
            labels,
            time,
            Reading.BREACH,
            patience,
            summary=sentence(entry, job.pool, course.subject, float(course.value[at]), limit),
            evidence={**evidence, "look_at": entry.look_at, "remedy": entry.remedy},
        )

    def _divergence(self, scene: Scene, end: datetime) -> dict[str, Any] | str:
        """Where prompts part; in words where that is not recorded."""
        telemetry, span = self._sources.telemetry, Span(end - timedelta(seconds=EXPLAINED_S), end)
        workload = telemetry.workload(scene.pool, span.start, span.end)
        found = divergence(workload.requests, workload.block_size)
        if found is None:
            return "not recorded: the request log has no block hashes of these prompts"
        asked, hits = (
            sum(series.value for series in telemetry.scalars(Question(metric.short, span, where=scene.where)))
            for metric in (PREFIX_QUERIES, PREFIX_HITS)
        )
        prefill = telemetry.histograms(Question(PREFILL.short, span, where=scene.where))
        spent_s = sum(series.total.total for series in prefill)
        return found.evidence(spent_s / (asked - hits) if asked > hits and spent_s else None)


def ends_of(job: Job[SymptomCondition], entry: Symptom, end: datetime) -> list[float]:
    """When the symptom is to be judged: multiples of its `every_s` that are new, seconds since the epoch."""
    every = entry.every_s
    first = math.floor(job.since(end).timestamp() / every) + 1
    return [every * place for place in range(first, math.floor(end.timestamp() / every) + 1)]


def limit_of(condition: SymptomCondition, entry: Symptom) -> float:
    limit = condition.threshold if condition.threshold is not None else entry.limit
    assert limit is not None
    return limit


def for_of(condition: SymptomCondition, entry: Symptom) -> float:
    return entry.for_s if condition.for_s is None else condition.for_s


def labels_of(job: Job[SymptomCondition], subject: Mapping[str, str]) -> dict[str, str]:
    return {"kind": job.condition.kind, "symptom": job.condition.symptom, "pool": job.pool, **subject}


def sentence(entry: Symptom, pool: str, subject: Mapping[str, str], value: float, limit: float) -> str:
    where = f"node {subject[NODE.label]}" if NODE.label in subject else f"pool {pool}"
    words = entry.says.replace("{value}", shown(value, entry.shown_as))
    words = words.replace("{limit}", shown(limit, entry.limit_shown_as or entry.shown_as))
    return f"{entry.title}: {where}: {words}"


def shown(value: float, how: str) -> str:
    if how == "share":
        return f"{value:.3g}" if abs(value) < 0.001 else f"{100 * value:.3g} %"
    if how == "number":
        return f"{value:.3g}"
    return f"{value / 3600:.1f} h" if value >= HOURS_FROM_S else duration_text(value)


def _of_gone(labels: Mapping[str, str], scene: Scene) -> Reading:
    """A node that left the fleet has no symptom any more; of any other that is not measured, nothing can be said."""
    node = labels.get(NODE.label)
    return Reading.CLEAR if node is not None and scene.enrolled and node not in scene.enrolled else Reading.HOLD

"""What is said of a node that got slower than the others of its pool: from its watch to a finding. Pure."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.regressions.learner import MIDDLE
from controlplane.alerts.regressions.node_course import NodeCourse
from controlplane.alerts.regressions.node_watch import NODES_PART
from controlplane.alerts.windows.history import instant
from controlplane.contract.on_call.metric_text import metric_title
from controlplane.evidence.replayed_rate import ReplayedRate


def node_finding(detector: Detector, labels: dict[str, str], at: datetime, alarmed: Sequence[str]) -> Finding:
    """Of the node with the strongest evidence. labels: of the alert; alarmed: the rule's metrics that are in alarm.

    Its value is the node's typical latency (the geometric mean, mix held fixed), which stands at the median.
    """
    metric = labels["metric"]
    watch = detector.watches[metric]
    node, course = watch.alarmed[0], watch.course
    stream, itself = watch.streams[node], watch.itself(node)
    if course is None or itself is None or stream.onset_s is None:
        # Its past is out of reach since the service began anew: that it is in alarm stands.
        return Finding(labels, at, Reading.BREACH)
    line = course.lines[node]
    effect = line.effect(line.sums.ticks - course.tick(stream.onset_s))
    threshold = watch.log_threshold(detector.pools)
    return Finding(
        labels,
        at,
        Reading.BREACH,
        since=instant(stream.onset_s),
        metric=metric,
        q=MIDDLE,
        value=itself.during_s,
        threshold=itself.before_s,
        before_s=itself.before_s,
        summary=f"{metric_title(metric)} of node {node} is above what it was, and the other nodes' is not",
        evidence={
            "q": MIDDLE,
            "prompt_bucket": None,
            "node": node,
            "nodes_apart": watch.alarmed,
            "also_slower": [name for name in alarmed if name != metric],
            "onset": instant(stream.onset_s).isoformat(),
            "itself": {"factor": round(math.exp(itself.rise), 3), "load_factor": round(itself.load, 3)},
            "compared_with": [name for name in course.usual.nodes if name != node],
            "baseline": {
                "start": instant(course.start_s).isoformat(),
                "span_s": line.usual * course.width_s,
                "usual_factor": round(math.exp(course.usual.offset(node)), 3),
            },
            "streams": {
                f"{metric}|node {name}": {"log_evidence": round(watch.streams[name].shown, 2)} for name in watch.alarmed
            },
            "effect": None
            if effect is None
            else {
                "factor": round(effect.factor, 3),
                "low": round(effect.low, 3),
                "high": round(effect.high, 3),
                "level": 0.95,
            },
            "error_rate": _error_rate(detector, course, threshold, line.replayed(course.width_s, threshold)),
        },
    )


def _error_rate(detector: Detector, course: NodeCourse, threshold: float, replayed: ReplayedRate) -> dict[str, Any]:
    every_s, nodes = detector.condition.false_alarm_every_s, len(course.lines)
    return {
        "false_alarm_every_s": every_s,
        "streams": nodes,
        "log_threshold": round(threshold, 2),
        "replayed": asdict(replayed),
        "statement": (
            f"designed for one false alarm in {every_s / 86400:.3g} days of the whole rule, {NODES_PART:.0%} of which "
            f"{nodes} nodes share, as far as their past shows how they part by themselves"
            f"{replayed.in_words}"
        ),
    }

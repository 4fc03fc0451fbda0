"""A study as text for people: one sentence of verdict, and a Markdown page with every trial. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.contract.bodies.studies import Study, StudyCreate, StudyVerdict, Trial
from tuner.replay.replay import key
from tuner.study.remeasure import INTERLEAVED, Improvement


def changes(knobs: Mapping[str, Any], default: Mapping[str, Any]) -> str:
    """ "max_num_batched_tokens 24 -> 512, quantization none -> int8"; "nothing" when they are equal."""
    changed = [f"{name} {default[name]} -> {value}" for name, value in knobs.items() if default.get(name) != value]
    return ", ".join(changed) or "nothing"


def summary_of(
    spec: StudyCreate,
    decided: StudyVerdict,
    winner: Mapping[str, Any],
    default: Mapping[str, Any],
    found: Improvement,
    excess: Mapping[str, float],
    *,
    design: str = INTERLEAVED,
) -> str:
    """The verdict with its evidence, in a sentence or two."""
    name = f"{spec.objective} p{spec.objective_q * 100:g}"
    interval = f"{_percent(found.low)} to {_percent(found.high)}, 95 %, {found.repeats} {_pairs(design)}{_looks(found)}"
    change = changes(winner, default)
    if decided is StudyVerdict.BETTER:
        return f"{name} falls by {_percent(found.estimate)} ({interval}) with {change}; every limit held."
    broken = [f"{name_} by {_percent(value)}" for name_, value in excess.items() if value > 0]
    reason = f"it exceeded {', '.join(broken)}" if broken else "the interval does not exclude zero"
    return (
        f"Keep what runs now: the best candidate ({change}) lowers {name} by {_percent(found.estimate)} ({interval}), "
        f"and {reason}."
    )


def _pairs(design: str) -> str:
    if design == INTERLEAVED:
        return "interleaved pairs"
    return "pairs measured in blocks, since each change takes long: an unsteady machine is not excluded"


def _looks(found: Improvement) -> str:
    return ", looked at twice at most" if found.looks > 1 else ""


def markdown(study: Study, trials: Sequence[Trial]) -> str:
    """The whole study: workload, verdict, and every trial in order."""
    spec, result = study.spec, study.result
    metric = key(spec.objective, spec.objective_q)
    limits = [key(limit.metric, limit.q) for limit in spec.constraints]
    lines = [f"# Study {study.id} of pool {spec.pool}: {study.state.value}", ""]
    if result is not None:
        lines += [f"**{result.verdict.value.replace('_', ' ')}.** {result.summary}", ""]
    if study.error:
        lines += [f"Failed: {study.error}", ""]
    told = "".join(f"; {key(limit.metric, limit.q)} at most {limit.limit_s:g} s" for limit in spec.constraints)
    lines += [f"Objective: smallest {metric}{told}. Trial node: {study.trial_node or 'none'}.", ""]
    if study.workload_summary:
        lines += _workload_lines(study.workload_summary)
    knobs = list(trials[0].knobs) if trials else []
    head = ["trial", "kind", *knobs, f"{metric} (s)", *(f"{name} (s)" for name in limits), "change (s)", "limits"]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for trial in sorted(trials, key=lambda trial: trial.number):
        quantiles = trial.measurement.quantiles if trial.measurement else {}
        cells = [str(trial.number), trial.kind, *(str(trial.knobs.get(name)) for name in knobs)]
        cells += [_seconds(trial.objective_s), *(_seconds(quantiles.get(name)) for name in limits)]
        cells += [_seconds(trial.change_s), _limits(trial)]
        lines.append("| " + " | ".join(cells) + " |")
    if result is not None and result.importances:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in result.importances.items())
        lines += ["", f"What mattered: {shares}."]
    return "\n".join(lines) + "\n"


def _workload_lines(summary: Mapping[str, Any]) -> list[str]:
    piece, captured = summary.get("slice") or {}, summary.get("captured") or {}
    text = (
        f"Workload: {piece.get('requests')} of {captured.get('requests')} captured requests, one node's share of "
        f"{summary.get('nodes')}, {piece.get('rate_per_s')} per second over {piece.get('span_s')} s"
    )
    if summary.get("compressed", 1.0) > 1.0:
        text += f", gaps shortened by {summary['compressed']}"
    return [text + ".", ""]


def _limits(trial: Trial) -> str:
    if trial.error:
        return trial.error.replace("|", "/")
    broken = [f"{name} +{value:.0%}" for name, value in trial.violations.items() if value > 0]
    return ", ".join(broken) or "held"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"

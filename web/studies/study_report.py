"""A study's report: one HTML document around the components of the study's page, for those who cannot open it.

Guarantee: it opens without the service and asks nobody for anything: styles and drawings stand in it, scripts do not,
and its own policy refuses both scripts and requests (CSP 3, section 3.3).
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from controlplane.client import Client
from controlplane.contract.bodies.change import class_of
from controlplane.contract.bodies.studies import FINALIST, Study, Trial
from web.frame.assets import ASSETS
from web.frame.format import shown_in
from web.frame.page import Context
from web.frame.rendering import templates
from web.rollouts.change_rows import ChangedKnob, changed_knobs, standing_for
from web.studies.asked_again import asked_again
from web.studies.limits_held import limits_held
from web.studies.replayed_traffic import replayed_traffic
from web.studies.studies_page import findings
from web.studies.what_was_searched import searched

TEMPLATE = "pages/study_report.html"
STYLES = {"tokens.css": "", "dashboard.css": "", "drawings.css": "", "phone.css": "screen and (max-width: 640px)"}
STYLES |= {"report.css": ""}
"""Files of `static/`, and for which media each is."""


@dataclass(frozen=True)
class Cost:
    """What a study took. Seconds; `requests`: replayed in all its runs."""

    search: int
    search_s: float
    fresh: int
    fresh_s: float
    change_s: float
    requests: int


def study_report(client: Client, number: int, now: datetime) -> str:
    """The document. Times are UTC. Raises `NotFound` for a study that there is not."""
    place = secrets.token_hex(16)  # Style sheets are put in afterwards: a template would write them as text.
    context = _context(client, number) | {"now": now, "place_of_styles": place}
    with shown_in(UTC):
        return templates.get_template(TEMPLATE).render(context).replace(place, _styles(), 1)


def _context(client: Client, number: int) -> Context:
    study = client.study(number)
    trials = client.trials(study.id)
    result = study.result
    return findings(study, trials) | {
        "changes": _changes(client, study),
        "limits": limits_held(study.spec, result, trials),
        "traffic": replayed_traffic(study.workload_summary, study.spec.workload),
        "space": searched(study.workload_summary),
        "cost": cost_of(trials),
        "engine": _engine(study),
        "release": client.service().version,
        "command": asked_again(study.spec),
    }


def _changes(client: Client, study: Study) -> list[ChangedKnob]:
    """From the default to the winner, by the class that the pool's nodes tell; without any, that of such an engine."""
    if study.result is None or study.result.winner is None:
        return []
    found = changed_knobs(study.result.default, study.result.winner, standing_for(client, study.spec.pool))
    backend = dict(_engine(study)).get("Engine's backend")
    return [
        one if one.change is not None or backend is None else replace(one, change=class_of(one.knob.name, backend))
        for one in found
    ]


def cost_of(trials: Sequence[Trial]) -> Cost:
    search = [trial for trial in trials if trial.kind != FINALIST]
    fresh = [trial for trial in trials if trial.kind == FINALIST]
    return Cost(
        search=len(search),
        search_s=sum(trial.took_s or 0.0 for trial in search),
        fresh=len(fresh),
        fresh_s=sum(trial.took_s or 0.0 for trial in fresh),
        change_s=sum(trial.change_s or 0.0 for trial in trials),
        requests=sum(trial.measurement.replayed for trial in trials if trial.measurement),
    )


def _engine(study: Study) -> list[tuple[str, str]]:
    """What the worker has told of the trial node's engine, in words."""
    told = study.workload_summary.get("engine")
    engine = told if isinstance(told, Mapping) else {}
    formats = engine.get("formats")
    found = [(f"Engine's {name}", str(engine[name])) for name in ("backend", "version", "model") if engine.get(name)]
    if isinstance(formats, list) and formats:
        found.append(("Weight formats it runs", ", ".join(map(str, formats))))
    return found


def _styles() -> str:
    """Each style sheet as an element of the document."""
    media = {name: f' media="{of}"' if of else "" for name, of in STYLES.items()}
    return "\n".join(f"<style{of}>{ASSETS.text(name)}</style>" for name, of in media.items())

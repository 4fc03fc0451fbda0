"""Alerting: the rules that watch, with how each is now, and one rule's form with its trial over the past."""

from collections.abc import Mapping
from itertools import islice

from controlplane.client import Client
from controlplane.contract.bodies.alerts import Alert, AlertRule, AlertState
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.errors import NotFound, TailwrightError, Unauthenticated
from web.access.viewer import may_operate
from web.alerting.rule_fields import (
    REMEDIES,
    SYMPTOM,
    TITLES,
    field_of,
    fields_of,
    in_words,
    rule_said,
    severities_of,
    usual_said,
    wanted_rule,
)
from web.alerting.rule_trial import SPANS, USUAL, tried
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection, is_number
from web.settings.form_fields import Problem

NOT_TRIED = frozenset({"drift", "config_failed", "node_claimed", "rollout_waits", "telemetry_lost"})
"""Kinds of rules on what nodes were told and said, of which only the present is kept."""
NEW = "new"
USUAL_KIND = "absolute"
LATEST = 200
"""Of the newest alerts so many are looked through for when a rule last fired."""


def rules(client: Client, selection: Selection) -> Context:
    """Those of the pool, where the address says one; those that fire first."""
    latest = list(islice(client.every(Alert, "/api/v1/alerts", limit=LATEST), LATEST))
    pool = selection.pool
    found = [
        (rule, in_words(rule), [one for one in latest if one.rule_id == rule.id])
        for rule in client.alert_rules()
        if pool is None or rule.pool in (None, pool)
    ]
    rows = [(rule, words, _firing(alerts), _last(alerts)) for rule, words, alerts in found]
    rows.sort(key=lambda row: (not row[2], not row[0].enabled, row[0].name.casefold()))
    return {"rows": rows, "may_operate": may_operate(client), "not_tried": NOT_TRIED, "remedies": REMEDIES}


def _firing(alerts: list[Alert]) -> list[Alert]:
    return [one for one in alerts if one.state is AlertState.FIRING]


def _last(alerts: list[Alert]) -> Alert | None:
    """The one that fired last."""
    fired = [one for one in alerts if one.fired_at is not None]
    return max(fired, key=lambda one: (one.fired_at, one.id), default=None)


def found_rule(client: Client, word: str) -> AlertRule | None:
    """Of the path's word: None for a new one. Raises `NotFound` for one that there is not."""
    if word == NEW:
        return None
    wanted = int(word) if is_number(word) else 0
    rule = next((one for one in client.alert_rules() if one.id == wanted), None)
    if rule is None:
        raise NotFound(f"no alert rule {word[:40]!r}", field="rule")
    return rule


def whole(client: Client, selection: Selection) -> Context:
    """The form as the address fills it in, which names its kind then, else as the rule is.

    It is tried over the past that the address says, if any; what is wrong with it is told at its field. Raises
    `BadRequest` for a kind of rule that there is not.
    """
    word, over = selection.own.get("rule", ""), selection.own.get("over", "")
    before = found_rule(client, word)
    kind = selection.own.get("kind", USUAL_KIND if before is None else before.condition.kind)
    of_kind = before is not None and before.condition.kind == kind
    said = rule_said(before) if before is not None and of_kind else usual_said(kind)
    context: Context = {}
    if over and "kind" in selection.own:
        said = {name: selection.own.get(name, "") for name in said} | {"pool": selection.pool or ""}
    if over:
        try:
            context = tried(client, wanted_rule(said, before.remedy if before is not None else None), over)
        except Unauthenticated:
            raise
        except TailwrightError as error:
            context = {"problem": problem_of(error, said)}
    return {**form_context(client, before, said), "over": over or USUAL, **context}


def form_context(client: Client, before: AlertRule | None, said: Mapping[str, str]) -> Context:
    """What the form's template is told."""
    kind = said["kind"]
    fleet = client.fleet()
    serving = [place for place, role in enumerate(fleet.role) if role is NodeRole.SERVING]
    symptoms = [one for one in client.symptoms() if one.limit is not None] if kind == SYMPTOM else []
    return {
        "rule": before,
        "number": NEW if before is None else str(before.id),
        "said": said,
        "fields": fields_of(kind),
        "kinds": TITLES,
        "pools": sorted({fleet.pool[place] for place in serving}),
        "severities": severities_of(kind),
        "symptoms": {"": "–", **{one.id: one.title for one in symptoms}},
        "catalogue": symptoms,
        "remedies": REMEDIES,
        "spans": SPANS,
        "may_be_tried": kind not in NOT_TRIED,
        "may_operate": may_operate(client),
    }


def problem_of(error: TailwrightError, said: Mapping[str, str]) -> Problem:
    return Problem(error.message, field_of(str(error.detail.get("field", "")), said))


LIST = Page("alerting", "/alerting", "Alerting", (Part("rules", rules, 10),), section="alerts", bar=False)
PAGE = Page("rule", "/alerting/rules/{rule}", "Rule", section="alerts", bar=False, whole=whole)

"""Settings, a tab each: how the service is, tokens, people and their sessions, destinations, what is kept how long."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.client import Client
from controlplane.contract.bodies.access import Scope, TokenView
from controlplane.contract.bodies.health import SettingInForce
from controlplane.contract.channels.destination_kinds import DESTINATION_KINDS
from controlplane.contract.channels.destinations import Delivery, Destination
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import NotFound
from web.access.viewer import scope_of
from web.frame.own_parameters import one_of
from web.frame.page import Asked, Context, Page, Part
from web.frame.second_step import Ending
from web.frame.selection import Selection, is_number
from web.frame.states import Kind
from web.settings.changed_destination import changed_destination
from web.settings.form_fields import LASTS
from web.settings.routing_fields import lines_of
from web.settings.routing_tab import editing_of, routing
from web.settings.wanted_silence import LENGTHS

SCOPES = {
    Scope.READ: "read: see everything",
    Scope.OPERATE: "operate: rules, studies, rollouts, silences",
    Scope.ADMIN: "admin: everything",
    Scope.ENROL: "enrol: register nodes",
    Scope.POST: "post: tell of other systems' alerts, and of deploys",
}
"""Those that people give; an agent gets its token when it enrols."""
LATEST = 100
"""Deliveries that a destination's health is told by."""
SETTING_GROUPS = {
    "What is kept how long": ("retention", "telemetry_max", "alert_history", "node_token"),
    "Queries": ("query",),
    "Exports": ("export",),
}
"""Of the retention's tab: names of settings, or what they begin with. The rest stands below them."""
UNITS = {"_hours": " hours", "_days": " days", "_s": " seconds"}
ENDED = 20
"""Tokens that have ended that are listed."""


@dataclass(frozen=True)
class DestinationState:
    """`last`: the newest delivery that was tried."""

    kind: Kind
    words: str
    last: Delivery | None


@dataclass(frozen=True)
class TokenMaking:
    """How somebody makes a token whose session does not: a person's. `command`: for a shell that has an admin's."""

    person: str
    command: str


def token_making(client: Client) -> TokenMaking | None:
    """None where the session is a token's: whoever began it has the token that the form asks for."""
    person = person_of(client)
    if person is None:
        return None
    words = ["tailwright", "tokens", "create", "NAME", "--scope", "operate", "--owner", person]
    words += ["--server", client.onboarding().service_url, "--token-file", "FILE"]
    return TokenMaking(person, shlex.join(words))


def person_of(client: Client) -> str | None:
    """Whose session it is, where it is a person's."""
    session = client.own_session()
    return session.name if session.person_id is not None else None


def is_admin(client: Client) -> bool:
    return scope_of(client) is Scope.ADMIN


def tokens(client: Client, selection: Selection) -> Context:
    """All that are no node's, those that count before those that have ended; none for who may not see them."""
    if not is_admin(client):
        return {"living": None}
    now = utc_now()
    found = [token for token in client.tokens() if token.node is None]
    ended = [token for token in found if not lives(token, now)]
    return {
        "living": [token for token in found if lives(token, now)],
        "ended": ended[:ENDED],
        "more": len(ended) - ENDED,
    }


def lives(token: TokenView, now: datetime) -> bool:
    return token.revoked_at is None and (token.expires_at is None or token.expires_at > now)


def people(client: Client, selection: Selection) -> Context:
    """Open sessions, for an admin everybody's, and who was seen."""
    return {"sessions": client.sessions(), "people": client.people() if is_admin(client) else None}


def destinations(client: Client, selection: Selection) -> Context:
    latest = client.latest_deliveries(LATEST)
    found = client.destinations()
    return {
        "destinations": [(one, health_of(one, latest)) for one in found],
        "deliveries": latest[:20],
        "names": {one.id: one.name for one in found},
        "labels": lambda matched: lines_of(matched).splitlines(),
        "may_change": is_admin(client),
    }


def health_of(destination: Destination, latest: Sequence[Delivery]) -> DestinationState:
    """In a word, by what the service says; `latest` is newest first."""
    tried = [one for one in latest if one.destination_id == destination.id and one.attempts]
    last, health = tried[0] if tried else None, destination.health
    if not destination.enabled:
        return DestinationState(Kind.STALE, "off", last)
    if health.failures_in_row:
        return DestinationState(Kind.BAD, f"failed {health.failures_in_row} times in a row", last)
    if health.dead:
        return DestinationState(Kind.WARN, "gave some up", last)
    if health.held_by_rate_until is not None:
        return DestinationState(Kind.WARN, "its rate is reached", last)
    if health.last_success_at is None:
        return DestinationState(Kind.UNKNOWN, "nothing sent yet", last)
    return DestinationState(Kind.GOOD, "delivered", last)


def service(client: Client, selection: Selection) -> Context:
    return {"ready": client.ready_report(), "service": client.service()}


def kept(client: Client, selection: Selection) -> Context:
    """What is kept how long, and the other numbers that the service was started with."""
    settings = client.service().settings
    groups = {
        title: [one for one in settings if one.name.startswith(begins)] for title, begins in SETTING_GROUPS.items()
    }
    told = {one.name for group in groups.values() for one in group}
    groups["Others"] = [one for one in settings if one.name not in told]
    return {"groups": groups, "setting_words": setting_words}


def setting_words(setting: SettingInForce) -> str:
    """A setting's value with its unit, which its name ends with: "8 hours", "on", "16 MiB"."""
    value = setting.value
    if value is None:
        return "no limit"
    if isinstance(value, bool):
        return "on" if value else "off"
    if setting.name.endswith("_bytes"):
        return f"{value / (1 << 20):,.4g} MiB"
    unit = next((words for ending, words in UNITS.items() if setting.name.endswith(ending)), "")
    return f"{value:,.6g}{unit}"


TABS: dict[str, tuple[str, Asked]] = {
    "service": ("Service health", service),
    "tokens": ("Tokens", tokens),
    "people": ("People and sessions", people),
    "destinations": ("Destinations", destinations),
    "routing": ("Routes and silences", routing),
    "kept": ("Retention and limits", kept),
}
"""By name: the title, and what is asked for. The first is shown where the address says none."""
USUAL = next(iter(TABS))


def tab_of(selection: Selection) -> str:
    """Raises `BadRequest` for one that there is not."""
    return one_of(selection, "tab", TABS, USUAL)


def shown(client: Client, selection: Selection) -> Context:
    """The tab's own."""
    tab = tab_of(selection)
    return {"tab": tab, **TABS[tab][1](client, selection)}


def whole(client: Client, selection: Selection) -> Context:
    """The tabs, who looks, and what is to be ended, if anything."""
    tab = tab_of(selection)
    wanted = selection.own.get("edit", "")
    editing = editing_of(client, wanted) if tab == "routing" else None
    changed = changed_destination(client, wanted) if tab == "destinations" else None
    form = editing or changed
    return {
        "tab": tab,
        "editing": editing,
        "changed": changed,
        **({"said": form.said} if form else {}),
        "tabs": {name: title for name, (title, _) in TABS.items()},
        "may_change": is_admin(client),
        "making": token_making(client) if tab == "tokens" else None,
        "ending": ending_of(client, selection.own.get("end", "")),
        "lengths": LASTS,
        "silence_lengths": LENGTHS,
        "kind_titles": {kind.value: wants.title for kind, wants in DESTINATION_KINDS.items()},
        "scopes": SCOPES,
    }


def ending_of(client: Client, what: str) -> Ending | None:
    """What the address wants to have ended: "token/7". Raises `NotFound` for what there is not."""
    if not what:
        return None
    kind, _, text = what.partition("/")
    offered = {"token": _token_endings, "session": _session_endings, "destination": _destination_endings}
    offered |= {"route": _route_endings, "inhibit-rule": _inhibit_rule_endings, "silence": _silence_endings}
    found = offered[kind](client) if kind in offered else []
    number = int(text) if is_number(text) else 0
    for ending in found:
        if ending.number == number:
            return ending
    raise NotFound(f"no {what[:40]!r} to end", field="end")


def _token_endings(client: Client) -> list[Ending]:
    loses = "Whoever uses it, and each browser signed in with it, is refused within two seconds. It cannot be undone."
    return [
        Ending("/settings/tokens", one.id, f"Revoke token {one.id}, {one.name}?", loses, "Revoke it")
        for one in client.tokens()
        if one.revoked_at is None
    ]


def _session_endings(client: Client) -> list[Ending]:
    loses = "The browser has to sign in again."
    return [
        Ending(
            "/settings/people",
            one.id,
            f"End the session of {one.name}?",
            f"{loses} It is this browser." if one.own else loses,
            "End it",
        )
        for one in client.sessions()
    ]


def _destination_endings(client: Client) -> list[Ending]:
    loses = "No alert is sent there any more, and what still waits for it is given up."
    return [
        Ending("/settings/destinations", one.id, f"Remove destination {one.name}?", loses, "Remove it")
        for one in client.destinations()
    ]


def _route_endings(client: Client) -> list[Ending]:
    loses = "Alerts that it matched go to the next route that does. Incidents that are open keep their owner."
    return [
        Ending("/settings/routes", one.id, f"Remove route {one.name}?", loses + _comes_back(one.origin), "Remove it")
        for one in client.routes()
    ]


def _inhibit_rule_endings(client: Client) -> list[Ending]:
    loses = "Alerts that it holds back, and that still fire, are told now."
    return [
        Ending(
            "/settings/inhibit-rules",
            one.id,
            f"Remove inhibit rule {one.name}?",
            loses + _comes_back(one.origin),
            "Remove it",
        )
        for one in client.inhibit_rules()
    ]


def _silence_endings(client: Client) -> list[Ending]:
    loses = "Alerts that it holds back, and that still fire, are told now."
    return [
        Ending(
            "/settings/silences",
            one.id,
            f"End silence {one.id}, {one.comment}?",
            loses + _comes_back(one.origin),
            "End it",
        )
        for one in client.silences()
        if one.ended_early_at is None
    ]


def _comes_back(origin: str | None) -> str:
    """What is to be known of what a file made."""
    return f" It is from the file {origin}, which makes it again when it is applied." if origin else ""


PAGE = Page("settings", "/settings", "Settings", (Part("setting", shown, 10),), key="t", bar=False, whole=whole)

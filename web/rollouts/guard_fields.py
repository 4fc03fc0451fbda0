"""What the forms of policies, freeze windows and pins say, as the API takes it, and back. Pure.

Guarantees: what is wrong is told by the form's own field; what `policy_said` writes is read as the policy that it was.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from controlplane.contract.bodies.rollouts import OnInconclusive
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.rollout_policies import (
    FreezeCreate,
    Hours,
    PinCreate,
    RolloutPolicyCreate,
    Weekday,
)
from web.frame.time_range import duration
from web.settings.form_fields import made, words

BY_LABEL = ("canary_selector", "wave_by", "wave_order", "wave_soak", "wave_pause")
WHICH_LABEL = "name the label whose values these are, such as region"
POLICY = (
    "pool",
    "proposers",
    "approvers",
    "approval",
    "step",
    *BY_LABEL,
    "days",
    "opens",
    "closes",
    "zone",
    "undecided",
)
FREEZE = ("pool", "starts", "ends", "reason")
PIN = ("pool", "node", "reason")
FIELDS = {"policy": POLICY, "freeze": FREEZE, "pin": PIN}
RENAMED = {"starts_at": "starts", "ends_at": "ends", "max_step_share": "step", "needs_approval": "approval"}
RENAMED |= {"on_inconclusive": "undecided", "hours": "opens", "hours.opens": "opens", "hours.closes": "closes"}
RENAMED |= {"wave_soak_s": "wave_soak"}
RENAMED |= {"hours.zone": "zone", "hours.days": "days"}
"""Fields that the API calls otherwise."""
UNDECIDED = {
    "": "as the rollout says, else it is held",
    OnInconclusive.HOLD.value: "it is held for a person",
    OnInconclusive.ROLL_BACK.value: "it is rolled back",
}
WEEK = list(Weekday)
_LENGTH = re.compile(r"\d{1,6}[smhdw]")


def wanted_policy(said: Mapping[str, str]) -> RolloutPolicyCreate:
    """Raises `BadRequest` that names the field."""
    text = {name: said.get(name, "").strip() for name in POLICY}
    hours = None
    if text["opens"] or text["closes"]:
        for name in ("opens", "closes"):
            if not text[name]:
                raise BadRequest(f"{name}: hours want both, such as 09:00 and 16:30", field=name)
        clock = {name: text[name] for name in ("opens", "closes")} | {"zone": text["zone"] or "UTC"}
        hours = made(Hours, clock | {"days": days_of(text["days"])})
    if wants_label(text):
        raise BadRequest(f"wave_by: {WHICH_LABEL}", field="wave_by")
    return made(
        RolloutPolicyCreate,
        {
            "pool": text["pool"],
            "proposers": words(text["proposers"]),
            "approvers": words(text["approvers"]),
            "needs_approval": text["approval"] == "yes",
            "max_step_share": share_of(text["step"], "step"),
            "canary_selector": text["canary_selector"],
            "wave_by": text["wave_by"],
            "wave_order": words(text["wave_order"]),
            "wave_soak_s": duration(text["wave_soak"], "wave_soak").total_seconds() if text["wave_soak"] else 0,
            "wave_pause": text["wave_pause"] == "yes",
            "hours": hours,
            "on_inconclusive": text["undecided"] or None,
        },
    )


def policy_said(policy: RolloutPolicyCreate) -> dict[str, str]:
    """The form of a policy that is there."""
    hours = policy.hours
    return {
        "pool": policy.pool,
        "proposers": ", ".join(policy.proposers),
        "approvers": ", ".join(policy.approvers),
        "approval": "yes" if policy.needs_approval else "",
        "step": "" if policy.max_step_share is None else percent_words(policy.max_step_share),
        "canary_selector": policy.canary_selector,
        "wave_by": policy.wave_by,
        "wave_order": ", ".join(policy.wave_order),
        "wave_soak": length_said(policy.wave_soak_s),
        "wave_pause": "yes" if policy.wave_pause else "",
        "days": "" if hours is None else ", ".join(day.value for day in hours.days),
        "opens": "" if hours is None else hours.opens,
        "closes": "" if hours is None else hours.closes,
        "zone": "" if hours is None else hours.zone,
        "undecided": "" if policy.on_inconclusive is None else policy.on_inconclusive.value,
    }


def wants_label(said: Mapping[str, str]) -> bool:
    """Whether something is said of the values of a label, and no label."""
    return not said.get("wave_by") and any(said.get(name) for name in ("wave_order", "wave_soak", "wave_pause"))


def length_said(length_s: float) -> str:
    """As `duration` reads it, to the second; empty for none."""
    if not length_s:
        return ""
    size_s, unit = next((one for one in ((86400, "d"), (3600, "h"), (60, "m")) if length_s % one[0] == 0), (1, "s"))
    return f"{max(1, round(length_s / size_s))}{unit}"


def wanted_freeze(said: Mapping[str, str], now: datetime) -> FreezeCreate:
    """Raises `BadRequest` that names the field."""
    starts = moment_of(said.get("starts", ""), now, "starts") if said.get("starts", "").strip() else now
    ends = said.get("ends", "").strip()
    if not ends:
        raise BadRequest("ends: say until when, such as 2d or 2026-12-27 08:00", field="ends")
    ends_at = moment_of(ends, starts, "ends")
    if ends_at <= starts:
        raise BadRequest("ends: lies before its start", field="ends")
    pool = said.get("pool", "").strip() or None
    return made(FreezeCreate, {"pool": pool, "starts_at": starts, "ends_at": ends_at, "reason": _reason(said)})


def wanted_pin(said: Mapping[str, str]) -> PinCreate:
    """Raises `BadRequest` that names the field."""
    node = said.get("node", "").strip() or None
    return made(PinCreate, {"pool": said.get("pool", "").strip(), "node": node, "reason": _reason(said)})


def days_of(text: str) -> Sequence[Weekday]:
    """Of "mon, wed" or "mon to fri"; empty: Monday to Friday. Raises `BadRequest`."""
    if not text:
        return WEEK[:5]
    found: list[Weekday] = []
    for part in words(text.casefold()):
        first, to, last = (word.strip()[:3] for word in part.partition(" to "))
        if first not in WEEK or (to and last not in WEEK):
            raise BadRequest(f"days: {part[:40]!r} is no day; write mon, wed or mon to fri", field="days")
        begin, end = WEEK.index(Weekday(first)), WEEK.index(Weekday(last or first))
        found += WEEK[begin : end + 1] if begin <= end else [*WEEK[begin:], *WEEK[: end + 1]]
    return list(dict.fromkeys(found))


def share_of(text: str, field: str) -> float | None:
    """Of "25 %" or "0.25"; None for nothing. Raises `BadRequest`."""
    if not text.strip():
        return None
    number = text.strip().removesuffix("%").strip()
    try:
        found = float(number)
    except ValueError:
        raise BadRequest(f"{field}: wants a share such as 25 %", field=field) from None
    found = round(found / 100, 9) if "%" in text or found > 1 else found
    if not 0 < found <= 1:
        raise BadRequest(f"{field}: wants a share above 0 and at most 100 %", field=field)
    return found


def percent_words(share: float) -> str:
    """As `share_of` reads it."""
    return f"{100 * share:.12g} %"


def moment_of(text: str, start: datetime, field: str) -> datetime:
    """A length counts from `start`, a moment without a zone is UTC. Raises `BadRequest`."""
    text = text.strip()
    if text == "now":
        return start
    if _LENGTH.fullmatch(text):
        return start + duration(text, field)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(
            f"{field}: wants a length such as 2d, or a moment such as 2026-12-27 08:00", field=field
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _reason(said: Mapping[str, str]) -> str:
    reason = said.get("reason", "").strip()
    if not reason:
        raise BadRequest("reason: say why, for people", field="reason")
    return reason

"""What bounds rollouts to a pool: its policy, freeze windows and pins, each with the place where it stands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.client import Client
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.duration_text import duration_text
from controlplane.contract.on_call.rollout_policies import Freeze, Hours, Pin, RolloutPolicy, RolloutPolicyCreate
from controlplane.contract.share_text import share_text

PAGE_PATH = "/rollouts/policies"
MOST_NAMED = 5
ALL_DAYS = 7


@dataclass(frozen=True)
class Hold:
    """One bound. `words`: a sentence without its stop; `until`: when it ends, if it does by itself. `stops`: no stage
    begins while it is so."""

    words: str
    address: str
    stops: bool = False
    until: datetime | None = None
    reason: str = ""


def holds(client: Client, pool: str, revision: int | None, now: datetime) -> list[Hold]:
    """As they are now; those that stop first. revision: what is to be rolled out."""
    policy = next((one for one in client.rollout_policies() if one.pool == pool), None)
    return holds_of(pool, revision, policy, client.freezes(), client.pins(), now)


def holds_of(
    pool: str,
    revision: int | None,
    policy: RolloutPolicy | None,
    freezes: Sequence[Freeze],
    pins: Sequence[Pin],
    now: datetime,
) -> list[Hold]:
    found = [*_of_freezes(pool, freezes, now), *_of_pins(pool, revision, pins), *_of_policy(policy, now)]
    return sorted(found, key=lambda one: not one.stops)


def hours_words(hours: Hours) -> str:
    """Such as "mon to fri, 09:00 to 16:30 (UTC)"."""
    week = list(type(hours.days[0]))
    places = sorted(week.index(day) for day in set(hours.days))
    in_a_row = len(places) > 2 and places[-1] - places[0] == len(places) - 1
    named = [week[place].value for place in places]
    days = f"{named[0]} to {named[-1]}" if in_a_row else ", ".join(named)
    days = "every day" if len(places) == ALL_DAYS else days
    return f"{days}, {hours.opens} to {hours.closes} ({hours.zone})"


def by_label(said: RolloutPolicyCreate | RolloutCreate) -> Iterator[str]:
    """What a rollout, or a policy, chooses by nodes' labels: sentences without their stops."""
    if said.canary_selector:
        yield f"The canary is one of {said.canary_selector}"
    if said.wave_by:
        order = f": {', '.join(said.wave_order)}, then any other" if said.wave_order else ""
        yield f"Waves go by {said.wave_by}, one after another{order}"
    if said.wave_soak_s:
        yield f"Each {said.wave_by} is watched on for {duration_text(said.wave_soak_s)} before the next"
    if said.wave_pause:
        yield f"A person resumes between one {said.wave_by} and the next"


def _of_freezes(pool: str, freezes: Sequence[Freeze], now: datetime) -> Iterator[Hold]:
    for one in freezes:
        if one.pool in (None, pool) and one.starts_at <= now < one.ends_at:
            whole = "every pool" if one.pool is None else f"pool {pool}"
            yield Hold(f"Freeze {one.id} holds {whole}", f"{PAGE_PATH}#freeze-{one.id}", True, one.ends_at, one.reason)


def _of_pins(pool: str, revision: int | None, pins: Sequence[Pin]) -> Iterator[Hold]:
    nodes = [one for one in pins if one.pool == pool and one.node is not None]
    for one in pins:
        if one.pool == pool and one.node is None:
            words = f"Pool {pool} is pinned to revision {one.revision}"
            yield Hold(words, f"{PAGE_PATH}#pin-{one.id}", one.revision != revision, reason=one.reason)
    if len(nodes) > MOST_NAMED:
        yield Hold(f"{len(nodes)} nodes are pinned and left out", f"{PAGE_PATH}#pins")
    else:
        for one in nodes:
            words = f"{one.node} is pinned to revision {one.revision} and left out"
            yield Hold(words, f"{PAGE_PATH}#pin-{one.id}", reason=one.reason)


def _of_policy(policy: RolloutPolicy | None, now: datetime) -> Iterator[Hold]:
    if policy is None:
        return
    address = f"{PAGE_PATH}#policy-{policy.id}"
    if policy.hours is not None:
        is_open = policy.hours.is_open(now)
        words = f"Stages begin {hours_words(policy.hours)}: {'now' if is_open else 'not now'}"
        yield Hold(words, address, not is_open)
    if policy.proposers:
        yield Hold(f"Proposed by {', '.join(policy.proposers)} alone", address)
    if policy.needs_approval:
        by = f"by {', '.join(policy.approvers)}" if policy.approvers else "by another than who proposes it"
        yield Hold(f"Approved {by} before it begins", address)
    yield from (Hold(words, address) for words in by_label(policy))
    if policy.max_step_share is not None:
        yield Hold(f"At most {share_text(policy.max_step_share)} of the pool at once", address)

"""What if: a form for a change of a pool's load or configuration, and the twin's forecast of it, in its address.

The page comes at once and asks for the forecast each second, until it is there: it is ended soon after nobody asks for
it any more. A browser without scripts waits for it (`wait` in the address).
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.errors import BadRequest, Overloaded, TailwrightError, Unauthenticated
from controlplane.contract.knobs import KNOBS, NUM_SPECULATIVE_TOKENS, parse_knob
from controlplane.contract.planning.whatif import Forecasted, ForecastUnderWay, WhatIf, WhatIfCreate, last_tried
from web.frame.page import Context, Page
from web.frame.selection import Selection
from web.frame.time_range import duration
from web.settings.form_fields import Problem, made, problem_of

HELD = {"ttft": "Good: time to first token", "tpot": "Good: time per output token", "e2e": "Good: whole request"}
FACTORS = {"load": "Load", "prompts": "Prompt tokens", "outputs": "Output tokens"}
USUAL = {"load": "1", "prompts": "1", "outputs": "1", "replicas": "", "model_parallel": "1", "look": "10m"}
USUAL |= {f"good_{name}": "" for name in HELD}
_RENAMED = {"window_s": "look"}


def asked_of(said: Mapping[str, str]) -> WhatIfCreate:
    """What the form says, as the API takes it. Raises `BadRequest` that names the field."""
    wanted: dict[str, Any] = {"pool": said["pool"], "window_s": duration(said["look"], "look").total_seconds()}
    wanted |= {name: said[name].strip().strip("x") for name in FACTORS}
    wanted["model_parallel"] = said["model_parallel"].strip().strip("x")
    if said["replicas"]:
        wanted["replicas"] = said["replicas"]
    wanted["knobs"] = {name: _value(name, said[name]) for name in KNOBS if said[name]}
    wanted["good"] = {name: _seconds(f"good_{name}", text) for name in HELD if (text := said[f"good_{name}"])}
    return made(WhatIfCreate, wanted)


def _value(name: str, text: str) -> Any:
    if KNOBS[name].choices:
        return text
    try:
        return parse_knob(name, json.loads(text))
    except ValueError:
        wanted = "a whole number, or a schedule" if name == NUM_SPECULATIVE_TOKENS else "a whole number"
        raise BadRequest(f"{name}: wants {wanted}, got {text[:40]!r}", field=name) from None


def _seconds(field: str, text: str) -> float:
    try:
        value = float(text.strip().removesuffix("s"))
    except ValueError:
        raise BadRequest(f"{field}: wants seconds such as 0.5, got {text[:40]!r}", field=field) from None
    if not value > 0:
        raise BadRequest(f"{field}: wants more than 0 s", field=field)
    return value


def rows(answer: WhatIf) -> list[tuple[str, float | None, float | None, Forecasted, Forecasted | None]]:
    """Of each quantile: its name, what was measured, the twin's error, and both forecasts."""
    return [
        (name, answer.measured.get(name), answer.error.get(name), now, answer.changed.quantiles.get(name))
        for name, now in answer.as_is.quantiles.items()
    ]


def whole(client: Client, selection: Selection) -> Context:
    """The form as the address fills it in; with `ask` in it, where the forecast is asked for, or what is wrong at its
    field; with `wait`, the forecast itself."""
    fleet = client.fleet()
    pools = sorted({pool for pool, role in zip(fleet.pool, fleet.role, strict=True) if role is NodeRole.SERVING})
    asking = selection.with_pool(selection.pool or next(iter(pools), ""))
    said = said_of(asking)
    context: Context = {"pools": {name: name for name in pools}, "said": said, "factors": FACTORS, "held": HELD}
    context |= {"knobs": KNOBS}
    if "ask" not in selection.own:
        return context
    if "wait" in selection.own:
        return context | told_to(client, said, client.what_if)
    try:
        asked_of(said)
    except BadRequest as error:
        return context | {"problem": _problem(error, said)}
    return context | {"asks": asking.query(), "waits": asking.query(wait="1")}


def so_far(client: Client, selection: Selection) -> Context:
    """The forecast that the address asks for, how long it has taken so far, or what keeps it from being made."""
    try:
        return {"asks": selection.query(), **told_to(client, said_of(selection), client.what_if_so_far)}
    except Overloaded as error:  # Its turn comes.
        return {"asks": selection.query(), "first": error.message}


def said_of(selection: Selection) -> dict[str, str]:
    """What the form's fields say."""
    said = {name: selection.own.get(name, USUAL.get(name, "")) for name in (*USUAL, *KNOBS)}
    return said | {"pool": selection.pool or ""}


def told_to(
    client: Client, said: Mapping[str, str], ask: Callable[[WhatIfCreate], WhatIf | ForecastUnderWay]
) -> Context:
    """What the service says to the question, also where it refuses it."""
    try:
        told = ask(asked_of(said))
        if isinstance(told, ForecastUnderWay):
            return {"under_way": told}
        return {"answer": told, "rows": rows(told), "tried": last_tried(client.studies(), said["pool"])}
    except (Unauthenticated, Overloaded):
        raise
    except TailwrightError as error:
        return {"problem": _problem(error, said)}


def _problem(error: TailwrightError, said: Mapping[str, str]) -> Problem:
    renamed = _RENAMED | {f"knobs.{name}": name for name in KNOBS}
    return Problem(error.message, problem_of(error, said, renamed).field)


PAGE = Page("whatif", "/whatif", "What if", section="studies", bar=False, whole=whole)

"""What the forms of tokens and destinations say, as the API takes it. Pure.

Guarantee: what is wrong is told by the form's own field; nothing that a form does not say is made up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from controlplane.contract.bodies.access import EnrolmentRules, Scope, TokenCreate
from controlplane.contract.bodies.alerts import Silenced
from controlplane.contract.channels.destinations import DestinationCreate, DestinationPreview
from controlplane.contract.errors import BadRequest, TailwrightError
from controlplane.contract.mistake_text import mistake_text

LASTS = {
    "": "as usual: 90 days, of scope enrol until it is revoked",
    "1": "1 day",
    "7": "7 days",
    "30": "30 days",
    "90": "90 days",
    "365": "a year",
}
LASTS |= {"never": "until it is revoked"}
"""How long a token may be asked to last: days, and the words for them."""
RULES = ("uses", "pools", "roles", "nodes")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Problem:
    """What is wrong with a form, at which of its fields; `field` is empty where it is none of them."""

    message: str
    field: str = ""


def problem_of(error: TailwrightError, fields: Mapping[str, str], renamed: Mapping[str, str]) -> Problem:
    """An error of the API at the form's field. `renamed`: fields of the form that the API calls otherwise."""
    told = str(error.detail.get("field", "")).removeprefix("enrolment.")
    own = (renamed.get(name, name) for name in (told, told.partition(".")[0]))
    found = next((name for name in own if name in fields), "")
    return Problem(error.message, found)


def said_of(text: str, field: str, missing: str) -> str:
    """Without the spaces around it. Raises `BadRequest` where it says nothing."""
    if not text.strip():
        raise BadRequest(f"{field}: {missing}", field=field)
    return text.strip()


def made(model: type[Model], said: Mapping[str, Any]) -> Model:
    """Raises `BadRequest` that names the field."""
    try:
        return model.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        message = mistake_text(first)
        raise BadRequest(f"{field}: {message}" if field else message, field=field) from None


def token_of(fields: Mapping[str, str], now: datetime) -> TokenCreate:
    """Raises `BadRequest` that names the field."""
    lasts = fields.get("lasts", "")
    if lasts not in LASTS:
        raise BadRequest("lasts: wants one of the offered lengths", field="lasts")
    said: dict[str, Any] = {"name": fields.get("name", "").strip(), "scope": fields.get("scope", "")}
    said["owner"] = fields.get("owner", "").strip() or None
    if lasts == "never":
        said["never_expires"] = True
    elif lasts:
        said["expires_at"] = now + timedelta(days=int(lasts))
    rules = {name: fields[name].strip() for name in RULES if fields.get(name, "").strip()}
    if rules and said["scope"] != Scope.ENROL:
        raise BadRequest(f"{next(iter(rules))}: is for scope enrol alone", field=next(iter(rules)))
    if rules:
        lists: dict[str, Any] = {name: words(rules[name]) for name in ("pools", "roles") if name in rules}
        said["enrolment"] = made(EnrolmentRules, {**rules, **lists})
    return made(TokenCreate, said)


def destination_of(fields: Mapping[str, str], only: Silenced | None = None) -> DestinationCreate:
    """What is left empty is not said. only: the alerts told there. Raises `BadRequest` that names the field."""
    said: dict[str, Any] = {name: text.strip() for name, text in fields.items() if text.strip()}
    if "recipients" in said:
        said["recipients"] = words(said["recipients"])
    return made(DestinationCreate, {"name": "", **said, "only": only})


def preview_of(fields: Mapping[str, str]) -> DestinationPreview:
    """The form's kind and templates alone. Raises `BadRequest` that names the field."""
    said = {name: fields[name] for name in ("kind", "title_template", "text_template") if fields.get(name, "").strip()}
    return made(DestinationPreview, said)


def words(text: str) -> list[str]:
    """Of a list with commas between."""
    return [word.strip() for word in text.split(",") if word.strip()]

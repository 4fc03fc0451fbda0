"""The catalogue of symptoms: read from `catalogue.toml` once, and checked as it is read.

Guarantee: a mistake in the file is one sentence that names symptom and key, for an unknown key with the nearest one.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from controlplane.alerts.symptoms.expressions import FORMS, Amount, Expression, Gate, Level, Strict
from controlplane.contract.bodies.alerts import Severity
from controlplane.contract.errors import BadRequest, nearest
from controlplane.contract.mistake_text import mistake_text

FILE = Path(__file__).with_name("catalogue.toml")


Shown = Literal["share", "time", "number"]


class Symptom(Strict):
    """One entry. `says` is its sentence about one node or pool, in which {value} and {limit} are filled in.

    shown_as: how both are written, limit_shown_as the limit where it differs; every_s: it is judged so often;
    resolve_at: of the limit, where it is called over; default: a new installation has the rule.
    """

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str
    meaning: str
    severity: Severity
    default: bool = False
    why_default: str
    says: str
    shown_as: Shown
    limit_shown_as: Shown | None = None
    every_s: float = Field(default=5.0, ge=5.0)
    for_s: float = Field(ge=0.0)
    resolve_s: float = Field(default=60.0, ge=0.0)
    resolve_at: float = Field(default=0.8, gt=0.0)
    threshold_why: str
    look_at: list[str]
    remedy: str
    runbook: str
    explain: Literal["divergence"] | None = None
    expression: Expression

    @property
    def limit(self) -> float | None:
        """The threshold that a rule may replace."""
        limited = getattr(self.expression, "limited", None)
        return None if limited is None else float(limited.limit)


@cache
def catalogue() -> Mapping[str, Symptom]:
    """By id, in the file's order."""
    return read_catalogue(FILE.read_text(encoding="utf-8"))


def read_catalogue(text: str) -> dict[str, Symptom]:
    """Raises `BadRequest`."""
    return {name: _symptom(name, table) for name, table in tomllib.loads(text).items()}


def symptom(name: str, field: str = "condition.symptom") -> Symptom:
    """One that a rule can watch for. Raises `BadRequest` with the nearest name."""
    judged = {one.id: one for one in catalogue().values() if one.limit is not None}
    if name not in judged:
        raise BadRequest(f"{field}: no symptom {name!r}, {nearest(name, list(judged))}", field=field)
    return judged[name]


def _symptom(name: str, table: dict[str, Any]) -> Symptom:
    try:
        return Symptom.model_validate({"id": name, **table})
    except ValidationError as error:
        # An unknown key says more than the one that is missing for it.
        first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        place = ".".join([name, *(str(part) for part in first["loc"])])
        said = mistake_text(first)
        if first["type"] == "extra_forbidden":
            said = f"no such key, {nearest(str(first['loc'][-1]), _keys(len(first['loc']) == 1))}"
        raise BadRequest(f"{place}: {said}", field=place) from None


def _keys(of_the_entry: bool) -> list[str]:
    if of_the_entry:
        return list(Symptom.model_fields)
    forms: tuple[type[Strict], ...] = (Amount, Level, Gate, *FORMS)
    return sorted({key for form in forms for key in form.model_fields})

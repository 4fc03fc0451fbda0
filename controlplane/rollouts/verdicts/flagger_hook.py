"""Flagger's webhook: which question its body asks, and whether it is answered with 2xx (pure).

Flagger (v1beta1) posts name, namespace, phase, checksum and the webhook's own metadata, all text, and takes a status
up to 202 for yes; it does not say which type of hook asks, so the metadata has to say what yes shall mean.
"""

from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from controlplane.contract.changes.verdicts import ArmAsked, Outcome, VerdictAsked
from controlplane.contract.errors import BadRequest, nearest

YES: dict[str, frozenset[Outcome]] = {
    "pass": frozenset({Outcome.PASS}),  # Of confirm-promotion.
    "not_fail": frozenset({Outcome.PASS, Outcome.INCONCLUSIVE}),  # Of rollout and confirm-traffic-increase.
    "fail": frozenset({Outcome.FAIL}),  # Of rollback: yes takes the canary back.
}
ARM_LABELS = tuple(ArmAsked.model_fields)
NUMBERS = ("settle_s", "tolerance", "alpha", "min_judge_s")
LISTS = ("metrics",)
TEXTS = ("start", "profile")
KEYS = (
    "rollout",
    "yes_when",
    *(f"{arm}.{label}" for arm in ("control", "canary") for label in ARM_LABELS),
    *(*NUMBERS, *LISTS, *TEXTS),
)


class FlaggerHook(BaseModel):
    """What Flagger posts; other fields of later versions are passed over."""

    name: str = Field(min_length=1, max_length=253, description="the canary's name")
    namespace: str = Field(default="", max_length=253, description="its namespace")
    phase: str = Field(default="", max_length=63, description="its phase, such as `Progressing`")
    checksum: str = Field(default="", max_length=253, description="of the canary's spec")
    metadata: dict[str, str] = Field(
        default={},
        max_length=32,
        description="`yes_when` (`pass`, `not_fail`, `fail`), and `rollout`, or of the two arms what differs from "
        "Flagger's names, such as `control.node`; several values are parted by commas",
    )

    @property
    def yes_when(self) -> Literal["pass", "not_fail", "fail"]:
        wanted = self.metadata.get("yes_when", "not_fail")
        if wanted not in YES:
            field = "metadata.yes_when"
            raise BadRequest(f"{field}: {wanted[:40]!r} is not one of {', '.join(YES)}", field=field)
        return wanted  # type: ignore[return-value]

    @property
    def rollout(self) -> int | None:
        """The rollout of ours that is asked after, if one is."""
        text = self.metadata.get("rollout")
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and 0 < len(text) < 10):
            raise BadRequest(f"metadata.rollout: wants a rollout's number, got {text[:40]!r}", field="metadata.rollout")
        return int(text)


def read_hook(body: Any) -> FlaggerHook:
    """Raises `BadRequest` for what Flagger would not send, and for metadata that says nothing to us."""
    try:
        hook = FlaggerHook.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        raise BadRequest(f"{field}: {first['msg']}", field=field) from None
    for key in hook.metadata:
        if key not in KEYS:
            raise BadRequest(f"metadata.{key[:40]}: nobody reads it, {nearest(key[:40], list(KEYS))}", field="metadata")
    return hook


def asked_by(hook: FlaggerHook) -> VerdictAsked:
    """Flagger keeps the old version as NAME-primary beside the new one, NAME; pods are called after them."""
    arms: dict[str, Any] = {"control": {"node": [f"{hook.name}-primary-*"]}, "canary": {"node": [f"{hook.name}-*"]}}
    found: dict[str, Any] = {}
    for key, value in hook.metadata.items():
        arm, _, label = key.partition(".")
        if arm in arms:
            arms[arm][label] = _parted(value)
        elif key in LISTS:
            found[key] = _parted(value)
        elif key in (*NUMBERS, *TEXTS):
            found[key] = value
    try:
        return VerdictAsked.model_validate({**found, **arms})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = "metadata." + ".".join(str(part) for part in first["loc"] if isinstance(part, str))
        raise BadRequest(f"{field}: {first['msg']}", field=field) from None


def is_yes(yes_when: str, outcome: Outcome) -> bool:
    """Whether Flagger hears 2xx."""
    return outcome in YES[yes_when]


def _parted(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]

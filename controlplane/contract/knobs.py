"""The engine knobs: each once, with its unit, bounds, default, and whether a change is live or needs a swap.

Guarantee: an `EngineConfig` is always complete and within bounds; two equal ones have the same `config_hash`.
Names follow vLLM's. Sources: vLLM 0.32 arguments of the same names (`prefill_chunk_size` is vLLM's
`long_prefill_token_threshold`).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from controlplane.contract.errors import KnobOutOfRange, UnknownKnob, nearest


class ChangeClass(StrEnum):
    """What changing a knob costs a serving engine."""

    LIVE = "live"  # Takes effect on the next engine step.
    SWAP = "swap"  # Running requests drain (or a standby takes over) while new weights are put in place.
    RESTART = "restart"  # The engine process starts again.


class Quantization(StrEnum):
    """Weight formats. What a device truly runs is reported in the effective configuration."""

    NONE = "none"
    INT8 = "int8"
    INT4 = "int4"
    FP8 = "fp8"


@dataclass(frozen=True)
class Knob:
    """One engine setting. Numeric knobs have bounds (inclusive); the others a list of choices."""

    name: str
    unit: str
    help: str
    default: int | float | str
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[str, ...] = ()
    embedded: ChangeClass = ChangeClass.LIVE
    vllm: ChangeClass = ChangeClass.LIVE


MAX_NUM_BATCHED_TOKENS = "max_num_batched_tokens"
PREFILL_CHUNK_SIZE = "prefill_chunk_size"
MAX_NUM_SEQS = "max_num_seqs"
NUM_SPECULATIVE_TOKENS = "num_speculative_tokens"
QUANTIZATION = "quantization"

KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob(MAX_NUM_BATCHED_TOKENS, "tokens per step", "Token budget of one engine step.", 512, 1, 65536),
        Knob(PREFILL_CHUNK_SIZE, "tokens, 0 = off", "Largest piece of one prompt in a step.", 0, 0, 65536),
        Knob(MAX_NUM_SEQS, "requests", "Most requests that run at once.", 32, 1, 4096),
        Knob(
            NUM_SPECULATIVE_TOKENS,
            "tokens, 0 = off",
            "Draft length; a number, or a schedule [[largest batch size, tokens], ...].",
            0,
            0,
            32,
        ),
        Knob(
            QUANTIZATION,
            "format",
            "Weight format.",
            "none",
            choices=tuple(Quantization),
            embedded=ChangeClass.SWAP,
            vllm=ChangeClass.RESTART,
        ),
    )
}

Schedule = tuple[tuple[int, int], ...]
"""A draft-length schedule: ((largest batch size, tokens), ...), batch sizes strictly rising."""


LARGEST_REPORTED = 2**53
"""Beyond it JSON numbers lose digits."""

Scalar = (
    StrictBool
    | Annotated[int, Field(strict=True, ge=-LARGEST_REPORTED, le=LARGEST_REPORTED)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
    | Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,63}$")]
)
"""A value of a knob that a node declares (`declared_knobs.py`)."""


class EngineConfig(BaseModel):
    """A full engine configuration, and beside it values of knobs that nodes declare.

    Build one with `parse_config` or `parse_declared`, which check bounds and name the field.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    max_num_batched_tokens: int = Field(default=512, description="token budget of one engine step")
    prefill_chunk_size: int = Field(
        default=0, description="tokens of one prompt in a step at most; 0: no limit of its own"
    )
    max_num_seqs: int = Field(default=32, description="requests that run at once at most")
    num_speculative_tokens: int | Schedule = Field(
        default=0, description="draft tokens; 0: off; or a schedule [[largest batch size, tokens], ...]"
    )
    quantization: Quantization = Field(default=Quantization.NONE, description="weight format")

    def draft_length(self, batch_size: int) -> int:
        """Draft tokens for a step with `batch_size` running requests; past the schedule's end, 0."""
        if isinstance(self.num_speculative_tokens, int):
            return self.num_speculative_tokens
        for largest, tokens in self.num_speculative_tokens:
            if batch_size <= largest:
                return tokens
        return 0

    def knobs(self) -> dict[str, Any]:
        """The JSON form: knob name to value."""
        return self.model_dump(mode="json")


def _integer(knob: Knob, value: Any, field: str) -> int:
    assert knob.minimum is not None and knob.maximum is not None
    if isinstance(value, bool) or not isinstance(value, int):
        raise KnobOutOfRange(f"{field}: wants a whole number ({knob.unit}), got {value!r}", field=field)
    if not knob.minimum <= value <= knob.maximum:
        raise KnobOutOfRange(
            f"{field}: {value} is outside {knob.minimum} to {knob.maximum} ({knob.unit})",
            field=field,
            minimum=knob.minimum,
            maximum=knob.maximum,
        )
    return value


def _schedule(knob: Knob, value: list[Any] | tuple[Any, ...], field: str) -> Schedule:
    pairs: list[tuple[int, int]] = []
    for place, pair in enumerate(value):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise KnobOutOfRange(f"{field}[{place}]: wants [largest batch size, tokens], got {pair!r}", field=field)
        size = _integer(KNOBS[MAX_NUM_SEQS], pair[0], f"{field}[{place}][0]")
        tokens = _integer(knob, pair[1], f"{field}[{place}][1]")
        if pairs and size <= pairs[-1][0]:
            raise KnobOutOfRange(
                f"{field}[{place}][0]: batch sizes must rise, {size} follows {pairs[-1][0]}", field=field
            )
        pairs.append((size, tokens))
    if not pairs:
        raise KnobOutOfRange(f"{field}: an empty schedule; use 0 to switch speculation off", field=field)
    return tuple(pairs)


def parse_knob(name: str, value: Any, *, prefix: str = "") -> Any:
    """Check one knob's value and return it in its canonical form.

    Raises `UnknownKnob` or `KnobOutOfRange`, whose detail names the field (with `prefix` before it).
    """
    field = prefix + name
    knob = KNOBS.get(name)
    if knob is None:
        raise UnknownKnob(f"{field}: no such knob, {nearest(name, list(KNOBS))}", field=field)
    if knob.choices:
        if value not in knob.choices:
            raise KnobOutOfRange(f"{field}: {value!r} is not one of {', '.join(knob.choices)}", field=field)
        return Quantization(value)
    if name == NUM_SPECULATIVE_TOKENS and isinstance(value, list | tuple):
        return _schedule(knob, value, field)
    return _integer(knob, value, field)


_LONGEST_SCHEDULE = 64
_FORMAT_NAME = re.compile(r"[A-Za-z0-9._+-]{1,64}")


def reported_knob(name: str, value: Any, *, prefix: str = "") -> Any:
    """One knob's value as an engine reports it: of the knob's type, though it may lie outside the contract's bounds.

    What runs is shown as it is: a value beyond the bounds is drift, one of another type is no value of this knob.
    Raises `UnknownKnob` or `KnobOutOfRange`, as `parse_knob` does.
    """
    field = prefix + name
    knob = KNOBS.get(name)
    if knob is None:
        raise UnknownKnob(f"{field}: no such knob, {nearest(name, list(KNOBS))}", field=field)
    if knob.choices:
        if not isinstance(value, str) or not _FORMAT_NAME.fullmatch(value):
            raise KnobOutOfRange(f"{field}: wants the name of a {knob.unit}, got {_clipped(value)}", field=field)
        return str(value)
    if name == NUM_SPECULATIVE_TOKENS and isinstance(value, list | tuple):
        if not 0 < len(value) <= _LONGEST_SCHEDULE or not all(_is_pair(pair) for pair in value):
            raise KnobOutOfRange(
                f"{field}: wants [[largest batch size, tokens], ...], got {_clipped(value)}", field=field
            )
        return [list(pair) for pair in value]
    if not _is_whole(value):
        raise KnobOutOfRange(f"{field}: wants a whole number ({knob.unit}), got {_clipped(value)}", field=field)
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_REPORTED


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(_is_whole(part) for part in value)


def _clipped(value: Any) -> str:
    """What was given, for a message: never long, whatever it was."""
    text = str(value) if isinstance(value, str) else type(value).__name__
    return repr(text if len(text) <= 40 else text[:37] + "...")


def parse_config(values: Mapping[str, Any], *, base: EngineConfig | None = None, prefix: str = "") -> EngineConfig:
    """Check `values` and lay them over `base` (the defaults when None).

    Raises `UnknownKnob` or `KnobOutOfRange` for the first wrong field; nothing is dropped or clamped silently.
    """
    checked = {name: parse_knob(name, value, prefix=prefix) for name, value in values.items()}
    return (base or EngineConfig()).model_copy(update=checked)


def canonical_json(values: Any) -> str:
    """Keys sorted, no spaces: equal values give equal text."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def config_hash(config: EngineConfig) -> str:
    """sha256 of the canonical JSON, hexadecimal."""
    return hashlib.sha256(canonical_json(config.knobs()).encode()).hexdigest()


def difference(
    wanted: Mapping[str, Any], runs: Mapping[str, Any], *, unreported: bool = False
) -> dict[str, tuple[Any, Any]]:
    """Name to (wanted, running) for each knob of `wanted` that runs with another value, in the order of the names.

    Values are equal when their JSON is: a schedule is a list on the wire and a tuple here, true is not the number 1.
    A knob that `runs` does not report counts as equal, or, with `unreported`, as running None.
    """
    return {
        name: (wanted[name], runs.get(name))
        for name in sorted(wanted)
        if (unreported or name in runs) and not _is_same(wanted[name], runs.get(name))
    }


def _is_same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if type(one) is type(other) and isinstance(one, int | str):
        return bool(one == other)  # As their JSON is, and many times faster.
    return canonical_json(one) == canonical_json(other)


def largest(value: Any) -> int:
    """A numeric knob's number; of a draft schedule its longest draft."""
    return max(int(tokens) for _, tokens in value) if isinstance(value, list | tuple) else int(value)

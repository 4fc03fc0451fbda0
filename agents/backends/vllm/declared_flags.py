"""Flags of `vllm serve` that a node file declares as knobs: which may be declared, and how each value is written.

Guarantee: what a control plane may set through a declared flag is a number, a switch or a plain word. Flags that open
ports, name files, load code, read secrets, or write what people asked into logs cannot be declared, by their whole name
or by a word in it, so that those of a later release are refused too; nor an abbreviation of one, which vLLM's argument
parser would complete.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agents.backends.vllm.arguments import OF_A_VARIANT, OWN
from controlplane.contract.knobs import ChangeClass, Scalar
from controlplane.contract.reports.declared_knobs import DeclaredKnob

_FLAG = re.compile(r"--[a-z0-9]+(-[a-z0-9]+)*")
_REFUSED = {
    "opens a way in": "host port ports addr address uds socket url uri endpoint grpc headless root cors allowed origins"
    " domains credentials middleware docs sleep rank nnodes master ray lb",
    "loads code": "trust remote code cls class plugin plugins module modules impl processors executor parser loader"
    " template tokenizer runner convert override overrides lora loras",
    "names a file, or another model": "path dir file files folder cache-dir download revision format map-location"
    " model config generation served json yaml params kwargs spec help version",
    "reads a secret, or shows what people asked": "key keys token secret ssl tls cert certs certfile keyfile ca log"
    " logs logging trace traces tracing tqdm profile profiler embeds env environ",
}
"""Why, and the words in a flag that say so."""
_WORDS = {word: why for why, words in _REFUSED.items() for word in words.split()}
_HARMLESS = frozenset(
    {
        *("--max-model-len", "--max-loras", "--max-lora-rank", "--max-cpu-loras", "--num-gpu-blocks-override"),
        *("--performance-mode", "--mm-encoder-tp-mode", "--mamba-cache-mode"),
    }
)
"""With such a word in them, and numbers or switches all the same."""


class DeclaredFlag(BaseModel):
    """The table [knobs.NAME] of a node file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    flag: str
    change: ChangeClass = Field(default=ChangeClass.RESTART, alias="class")
    start: Scalar
    values: tuple[Scalar, ...] | None = None
    minimum: float | int | None = None
    maximum: float | int | None = None
    log: bool = False
    unit: str = ""
    help: str = ""

    @field_validator("flag")
    @classmethod
    def _may_be_declared(cls, value: str) -> str:
        if problem := refusal(value):
            raise ValueError(problem)
        return value

    @field_validator("change")
    @classmethod
    def _is_no_swap(cls, value: ChangeClass) -> ChangeClass:
        if value is ChangeClass.SWAP:
            raise ValueError("a flag is restart, or live where the plugin moves it; the standby makes a restart a swap")
        return value

    @model_validator(mode="after")
    def _is_a_knob(self) -> "DeclaredFlag":
        try:
            self.as_knob(self.change)
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
        return self

    def as_knob(self, change: ChangeClass) -> DeclaredKnob:
        """As the node tells it. `change`: what a change takes there."""
        told = self.model_dump(exclude={"flag", "change"})
        return DeclaredKnob(change_class=change, **{**told, "help": self.help or f"vLLM's {self.flag}."})

    def arguments(self, value: Scalar) -> list[str]:
        """How vLLM is told. A switch has no value: --a-flag, or --no-a-flag."""
        if isinstance(value, bool):
            return [self.flag if value else f"--no-{self.flag.removeprefix('--')}"]
        return [self.flag, str(value)] if isinstance(value, str) or value >= 0 else [f"{self.flag}={value}"]

    @property
    def argument(self) -> str:
        """vLLM's name of it."""
        return self.flag.removeprefix("--").replace("-", "_")


def refusal(flag: str) -> str:
    """Why this flag cannot be declared; empty where it can."""
    if not _FLAG.fullmatch(flag):
        return f"{flag!r} is no flag of vLLM's as --help shows them, such as --block-size"
    if (mend := (OWN | OF_A_VARIANT).get(flag)) is not None:
        return f"{flag} is the agent's to set; {mend}"
    if flag.startswith("--no-"):
        return f"{flag}: declare --{flag.removeprefix('--no-')}, with true and false"
    if flag in _HARMLESS:
        return ""
    for whole in (*OWN, *OF_A_VARIANT):
        if whole.startswith(flag):
            return f"{flag} may be read as {whole}, which is the agent's to set; write the whole flag"
    *words, last = flag.removeprefix("--").split("-")
    for word, why in _WORDS.items():
        if word in words or word.startswith(last):
            return f"{flag} cannot be a knob: a flag with {word!r} in it {why}; put it into arguments"
    return ""


def flags_of(config: Mapping[str, Any], declared: Mapping[str, DeclaredFlag]) -> list[str]:
    """The arguments for what a configuration wants of the declared flags, each by its start where it wants nothing."""
    found: list[str] = []
    for name, own in declared.items():
        found += own.arguments(config.get(name, own.start))
    return found

"""A configuration as Git has it: a pool's file, an engine's arguments, or a patch of the file that holds them. Pure.

vLLM's names: `vllm serve --help` of 0.32. A weight format is another model there, no argument; what drafts are made by
stands in `--speculative-config` beside their number, so that only the number is ours to change.
"""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from controlplane.contract.changes.hooks import Hook
from controlplane.contract.knobs import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
)
from controlplane.terminal.output.toml_text import table_lines
from controlplane.terminal.toml_file import toml_string

VLLM_FLAGS = {
    MAX_NUM_BATCHED_TOKENS: "--max-num-batched-tokens",
    MAX_NUM_SEQS: "--max-num-seqs",
    PREFILL_CHUNK_SIZE: "--long-prefill-token-threshold",
}
BETWEEN = r"""(?:=|\s+|["']?\s*,\s*|["']?\s*\n\s*-\s+)["']?"""
"""What stands between a flag and its value: `--flag=8`, `--flag 8`, `"--flag", "8"`, or two lines of a YAML list."""


OF_SECRETS = (
    "# Secrets of hooks are not here: url_kept and secret_kept leave those that are there. Where a hook is made anew,",
    "# url_file or url_env, secret_file or secret_env say where they are (docs/pools-as-code.md).",
)


class Engine(StrEnum):
    """Whose arguments they are."""

    VLLM = "vllm"
    EMBEDDED = "embedded"


def toml_text(pool: str, knobs: Mapping[str, Any], hooks: Sequence[Hook] = ()) -> str:
    """A pool's file with every knob and every hook; secrets are not in it, those that are there stay."""
    lines = ["[pool]", f"name = {toml_string(pool)}", "", "[pool.config]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in sorted(knobs.items())]
    lines += ["", *OF_SECRETS] if hooks else []
    for hook in hooks:
        lines += ["", *table_lines("hook", _hook(hook))]
    return "\n".join(lines) + "\n"


def _hook(hook: Hook) -> dict[str, Any]:
    shown = hook.model_dump(mode="json", include={"name", "kind", "timeout_s", "retries", "on_silence"})
    return {**shown, "url_kept": True, **({"secret_kept": True} if hook.signed else {})}


def arguments(knobs: Mapping[str, Any], engine: Engine) -> list[str]:
    """One element an argument, as a shell or a manifest takes them."""
    if engine is Engine.EMBEDDED:
        return [part for name, value in sorted(knobs.items()) for part in ("--set", f"{name}={_compact(value)}")]
    found = [part for name, flag in VLLM_FLAGS.items() if knobs.get(name) for part in (flag, str(knobs[name]))]
    if knobs.get(NUM_SPECULATIVE_TOKENS):
        drafts = {"method": "ngram", NUM_SPECULATIVE_TOKENS: knobs[NUM_SPECULATIVE_TOKENS]}
        found += ["--speculative-config", json.dumps(drafts)]
    return found


def patch(text: str, name: str, knobs: Mapping[str, Any]) -> tuple[str, list[str]]:
    """A unified diff that gives the file these values, and the knobs that it does not name. name: of the file."""
    after, missing = text, []
    for knob, value in sorted(knobs.items()):
        spellings = [rf"(\b{knob}[\"']?\s*[=:]\s*[\"']?)[\w]+"]
        if knob in VLLM_FLAGS:
            spellings.append(rf"({re.escape(VLLM_FLAGS[knob])}{BETWEEN})\d+")
        counts = [len(re.findall(spelling, after)) for spelling in spellings]
        if not any(counts) or not isinstance(value, int | str):
            missing.append(knob)
            continue
        for spelling in spellings:
            after = re.sub(spelling, rf"\g<1>{value}", after)
    old, new = (one.splitlines(keepends=True) for one in (text, after))
    return "".join(difflib.unified_diff(old, new, fromfile=f"a/{name}", tofile=f"b/{name}")), missing


def _compact(value: Any) -> str:
    return str(value) if isinstance(value, int | str) else json.dumps(value, separators=(",", ":"))

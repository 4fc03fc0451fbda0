"""TOML files that declare a pool: `[pool]`, `[rollout]` and `[slo]`, with the API's own fields. Its hooks, `[[hook]]`,
are read as alerting's tables are (`alerting.alerting_files`).

Guarantee: whatever is wrong is told with its file, its table and its field, all of it at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.errors import nearest
from controlplane.contract.knobs import KNOBS
from controlplane.contract.on_call.rollout_policies import RolloutPolicyCreate
from controlplane.contract.reports.declared_knobs import is_name

POOL, ROLLOUT, SLO = "pool", "rollout", "slo"
CONFIG, POLICY = "config", "policy"
SLO_FIELDS = ("limits", "profile")
"""Of a rollout: what the canary must not break."""
NOT_DECLARED = ("pool", "revision", "emergency", "study_id", "study_step", "takes_back", *SLO_FIELDS)
"""Of a rollout: what the file says elsewhere, or what no file may ask for."""
ROLLOUT_FIELDS = tuple(name for name in RolloutCreate.model_fields if name not in NOT_DECLARED)
POLICY_FIELDS = tuple(name for name in RolloutPolicyCreate.model_fields if name != "pool")
FIELDS: Mapping[str, Sequence[str]] = {
    POOL: ("name", CONFIG, POLICY),
    f"{POOL}.{CONFIG}": tuple(KNOBS),  # And those that the pool's nodes declare, which no file can know.
    f"{POOL}.{POLICY}": POLICY_FIELDS,
    ROLLOUT: ROLLOUT_FIELDS,
    SLO: SLO_FIELDS,
}
"""The tables of a pool's file, each with its fields."""
TABLES = (POOL, ROLLOUT, SLO)
HOOK = "hook"


@dataclass(frozen=True)
class PoolFile:
    """What one file declares of its pool. config: knobs that it fixes, the others stay; policy: None where it says
    none; rollout: how a changed configuration goes out, with what the canary must not break."""

    file: Path
    pool: str
    config: Mapping[str, Any]
    policy: Mapping[str, Any] | None
    rollout: Mapping[str, Any]


def read_pools(documents: Mapping[Path, Mapping[str, Any]]) -> tuple[list[PoolFile], list[str]]:
    """Of the files that declare a pool, and what is wrong with them. documents: of each file, what it holds."""
    found: list[PoolFile] = []
    problems: list[str] = []
    for file, document in documents.items():
        said = {name: document[name] for name in TABLES if name in document}
        if not said and HOOK not in document:
            continue
        wrong = list(_wrong(said))
        problems += [f"{file}: {one}" for one in wrong]
        if not wrong:
            found.append(_pool_file(file, said))
    first: dict[str, Path] = {}
    for one in found:
        before = first.setdefault(one.pool, one.file)
        if before != one.file:
            problems.append(f"{one.file}: [pool]: name: {one.pool!r} is declared twice, before in {before}")
    return found, problems


def pool_of(document: Mapping[str, Any]) -> str | None:
    """The pool that a file is of; None where it names none."""
    pool = document.get(POOL)
    name = pool.get("name") if isinstance(pool, Mapping) else None
    return name if isinstance(name, str) and name else None


def _wrong(said: Mapping[str, Any]) -> Iterator[str]:
    if pool_of(said) is None:
        yield "[pool]: name: say which pool, as in name = 'chat'"
    for table, fields in FIELDS.items():
        outer, _, inner = table.partition(".")
        values = said.get(outer, {})
        values = values.get(inner, {}) if inner and isinstance(values, Mapping) else values
        if not isinstance(values, Mapping):
            yield f"{table}: wants a table, as [{table}]"
            continue
        may_be_declared = table == f"{POOL}.{CONFIG}"
        for key in values:
            if key not in fields and not (may_be_declared and is_name(key)):
                yield f"[{table}]: {key}: no such field, {nearest(key, list(fields))}"


def _pool_file(file: Path, said: Mapping[str, Any]) -> PoolFile:
    pool = said[POOL]
    rollout = {**said.get(ROLLOUT, {}), **said.get(SLO, {})}
    return PoolFile(file, pool["name"], pool.get(CONFIG, {}), pool.get(POLICY), rollout)

"""What a hook is sent (pure): JSON, described in docs/hooks.md. Nothing of it is secret."""

import json
from datetime import datetime
from typing import Any

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.changes.hooks import HookKind
from controlplane.rollouts.tables import RolloutRow

VERSION = 1


def body_of(row: RolloutRow, kind: HookKind, new: Revision, previous: Revision | None, now: datetime) -> str:
    """Of a rollout as it stands; the same text at each attempt."""
    was: dict[str, Any] = {} if previous is None else previous.knobs.knobs()
    wanted = new.knobs.knobs()
    names = sorted(name for name in was.keys() | wanted.keys() if was.get(name) != wanted.get(name))
    said = {
        "version": VERSION,
        "kind": kind.value,
        "at": now.isoformat(),
        "rollout": row.id,
        "pool": row.pool,
        "phase": row.phase,
        "message": row.message,
        "verdict": row.verdict,
        "revision": {"from": row.previous_revision, "to": new.number},
        "diff": {name: {"from": was.get(name), "to": wanted.get(name)} for name in names},
        "told_nodes": row.told_nodes,
        "emergency": bool(row.spec.get("emergency")),
        "takes_back": row.spec.get("takes_back"),
        "reason": row.spec.get("reason", ""),
        "created_by": row.created_by,
        "approved_by": row.approved_by,
    }
    return json.dumps(said, separators=(",", ":"))

"""What nodes run, read as columns: what thousands of nodes report alike is read once."""

import json
from functools import lru_cache

from sqlalchemy import String, cast
from sqlmodel import col

from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.fleet import effective
from controlplane.fleet.tables import NodeRow

MOST_READ = 4096
"""Different configurations that are remembered."""
RUNS = tuple(cast(col(NodeRow.effective)[part], String) for part in ("revision", "knobs", "declared"))
"""What a node runs, and what it declares of that, as JSON. The rest of what it reports, no two nodes have alike."""


@lru_cache(maxsize=MOST_READ)
def running(revision: str | None, knobs: str | None, declared: str | None) -> EffectiveConfig | None:
    """Revision and knobs of a stored effective configuration, of which `RUNS` are given; to be read only."""
    if revision is None or knobs is None:
        return None
    said = {"revision": json.loads(revision), "knobs": json.loads(knobs)}
    return effective.salvage(said | ({"declared": json.loads(declared)} if declared else {}))[0]

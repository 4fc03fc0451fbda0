"""Configuration revisions: immutable, numbered, hashed."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from controlplane.contract.knobs import EngineConfig


class RevisionCreate(BaseModel):
    """A new full configuration: `knobs` laid over revision `base` (the engine defaults when null)."""

    knobs: dict[str, Any]
    base: int | None = None
    note: str = Field(default="", max_length=500)


class Revision(BaseModel):
    """One full configuration. Equal knobs give the same hash, and the same revision."""

    number: int
    hash: str
    knobs: EngineConfig
    note: str = ""
    created_by: str
    created_at: datetime

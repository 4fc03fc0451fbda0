"""Configuration revisions: immutable, numbered, hashed."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from controlplane.contract.bodies.knob_schema import VALUES
from controlplane.contract.knobs import EngineConfig


class RevisionCreate(BaseModel):
    """A new full configuration: `knobs` laid over revision `base` (the engine defaults when null)."""

    knobs: dict[str, Any] = Field(
        json_schema_extra=VALUES, description="knobs to change, by name; the others are the base's"
    )
    base: int | None = Field(default=None, description="the revision they are laid over; null: the engine's defaults")
    note: str = Field(default="", max_length=500, description="why, for people")


class Revision(BaseModel):
    """One full configuration. Equal knobs give the same hash, and the same revision."""

    number: int = Field(description="the revision's number, counted up from 1")
    hash: str = Field(description="of its knobs; equal knobs give the same")
    knobs: EngineConfig = Field(description="the full configuration")
    note: str = Field(default="", description="why, for people")
    created_by: str = Field(description="the name of the token that made it")
    created_at: datetime = Field(description="when it was made")

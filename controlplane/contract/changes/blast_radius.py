"""Whom a rollout can hurt, told before it starts: the wire models of its blast radius and of a limit to it."""

from pydantic import BaseModel, Field

from controlplane.contract.knobs import ChangeClass


class ClassReach(BaseModel):
    """The nodes on which the change is of one class."""

    change: ChangeClass = Field(description="the hardest class among the knobs that change there")
    nodes: int = Field(description="how many nodes")
    unmeasured: int = Field(description="those of them on which nobody has measured such a change")
    unavailable_s: float = Field(description="seconds in which requests to one node wait: the longest measured")
    node_seconds: float = Field(description="the sum of it over the nodes that were measured")


class BlastRadius(BaseModel):
    """What a rollout reaches, as the fleet and its traffic are now.

    Shares are of the whole fleet's requests of the last ten minutes. At once: by one wave; which nodes is drawn, so
    shares are of the busiest that it could be.
    """

    nodes: int = Field(description="serving nodes of the pool: all of them are given the revision in the end")
    nodes_at_once: int = Field(description="nodes of one wave at most")
    traffic_share: float | None = Field(description="share of the requests that the pool serves; null: none was served")
    traffic_share_at_once: float | None = Field(description="the same of one wave at most")
    tenants: int = Field(description="tenants that the pool has served, as senders name them")
    tenant_names: list[str] = Field(default=[], description="the first twenty of them, by name")
    by_class: list[ClassReach] = Field(default=[], description="nodes by what it takes there, the hardest first")
    unchanged: int = Field(default=0, description="nodes that run all of it already")
    unknown: int = Field(default=0, description="nodes that have not said what they run")
    unavailable_s: float | None = Field(
        description="seconds in which requests to one node wait at most; 0: all is live; null: not measured everywhere"
    )
    says: list[str] = Field(default=[], description="the same in words")


class BlastLimit(BaseModel):
    """The largest blast radius that a rollout may have. What cannot be told is taken for too large."""

    nodes: int | None = Field(default=None, ge=1, description="nodes in all; null: any number")
    nodes_at_once: int | None = Field(default=None, ge=1, description="nodes of one wave; null: any number")
    traffic_share: float | None = Field(
        default=None, ge=0, le=1, description="share of the fleet's requests that the pool serves; null: any"
    )
    traffic_share_at_once: float | None = Field(default=None, ge=0, le=1, description="the same of one wave; null: any")
    tenants: int | None = Field(default=None, ge=0, description="tenants that are served; null: any number")
    unavailable_s: float | None = Field(
        default=None, ge=0, description="seconds in which requests to one node wait; null: any"
    )

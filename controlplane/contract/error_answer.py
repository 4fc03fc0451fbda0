"""The wire form of every error: `{"error": {"code", "message", "detail"}}`, and which errors a route can answer."""

from typing import Any

from pydantic import BaseModel, Field

from controlplane.contract.errors import TailwrightError


class ErrorBody(BaseModel):
    """What was wrong, for people and for programs."""

    code: str = Field(description="stable name of the kind of error, such as `bad_request` or `conflict`")
    message: str = Field(description="what was wrong, where, and what would be right; for people")
    detail: dict[str, Any] = Field(
        default={}, description="the same for programs: `field` names the place in the request, where there is one"
    )


class ErrorAnswer(BaseModel):
    """The body of every answer of 400 and above."""

    error: ErrorBody = Field(description="the error")


def answers(*classes: type[TailwrightError]) -> dict[int | str, dict[str, Any]]:
    """A route's `responses=`: the errors that nothing else of the route shows (its token, its body, its path)."""
    return {cls.status: {"description": (cls.__doc__ or cls.code).strip()} for cls in classes}

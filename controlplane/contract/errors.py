"""One exception tree for everything a user can get wrong, and for what the service must refuse.

    TailwrightError                 500  internal
    +-- BadRequest               400  malformed input; `field` names the place
    |   +-- UnknownKnob          400
    |   +-- KnobOutOfRange       400
    |   +-- PromptTooLong        400
    |   +-- BadSettings          400  what a process was started with
    +-- Unauthenticated          401  no token, or one that is not known
    |   +-- TokenExpired         401
    |   +-- SignInRefused        401  the issuer's answer is not what it must be
    +-- Forbidden                403  the token lacks the scope
    +-- NotFound                 404
    +-- Conflict                 409  the thing is in a state that forbids it
    |   +-- NodeIsLive           409  somebody enrols a node that is heard from
    +-- PreconditionFailed       412  it has changed since it was read
    +-- TooLarge                 413
    +-- Unsupported              415  content type or encoding
    +-- Overloaded               429  try later; `retry_after_s` says when
    +-- Unavailable              503  a dependency is not ready
        +-- DeadlineUnmet        503  the request's deadline passed, or would; `retry_after_s` says when to try again

Every error is written on the wire as {"error": {"code", "message", "detail"}}: the message says what was wrong,
where, and the mend; detail carries the same for machines (always `field` where there is one).
"""

from difflib import get_close_matches
from typing import Any, ClassVar


class TailwrightError(Exception):
    """The root. `status` is the HTTP status, `code` the stable machine name."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail: dict[str, Any] = detail

    def body(self) -> dict[str, Any]:
        """The wire form of the error."""
        return {"error": {"code": self.code, "message": self.message, "detail": self.detail}}


class BadRequest(TailwrightError):
    """Malformed or impossible input; `detail.field` names the place."""

    status = 400
    code = "bad_request"


class UnknownKnob(BadRequest):
    """A knob that no engine has."""

    code = "unknown_knob"


class KnobOutOfRange(BadRequest):
    """A knob's value that no engine takes."""

    code = "knob_out_of_range"


class PromptTooLong(BadRequest):
    """A prompt that does not fit the model's context."""

    code = "prompt_too_long"


class BadSettings(BadRequest):
    """A setting is wrong; `field` names it."""

    code = "bad_settings"


class Unauthenticated(TailwrightError):
    """No token was sent, or one that is unknown or revoked."""

    status = 401
    code = "unauthenticated"


class TokenExpired(Unauthenticated):
    """The token's time is over."""

    code = "token_expired"


class SignInRefused(Unauthenticated):
    """What came back from the issuer does not prove who somebody is."""

    code = "sign_in_refused"


class Forbidden(TailwrightError):
    """The token lacks the scope, or is bound to another node."""

    status = 403
    code = "forbidden"


class NotFound(TailwrightError):
    """There is no such thing."""

    status = 404
    code = "not_found"


class Conflict(TailwrightError):
    """The thing is in a state that forbids it, or somebody else changed it at the same time."""

    status = 409
    code = "conflict"


class NodeIsLive(Conflict):
    """The node is heard from: another agent has its name. Its own token, or an administrator, lets it enrol again."""

    code = "node_is_live"


class OtherContent(Conflict):
    """Another report has taken this one's place in its stream: this one was not counted under it."""

    code = "other_content"


class TooOld(Conflict):
    """The report lies further back in its stream than is remembered: whether it was counted is not known any more."""

    code = "too_old"


class PreconditionFailed(TailwrightError):
    """`If-Match` names another state than the thing is in: it has changed since it was read."""

    status = 412
    code = "precondition_failed"


class TooLarge(TailwrightError):
    """The body is over the limit."""

    status = 413
    code = "too_large"


class Unsupported(TailwrightError):
    """The content type or the content encoding is not one that is taken here."""

    status = 415
    code = "unsupported"


class UnknownHost(TailwrightError):
    """`Host` names another server than this one: a page of another name may be asking (DNS rebinding)."""

    status = 421
    code = "unknown_host"

    def __init__(self, host: bytes) -> None:
        named = host[:100].decode("latin-1")
        super().__init__(f"Host: {named!r} is not a name of this server; allowed_hosts adds one", field="Host")


class Overloaded(TailwrightError):
    """Too much at once; `Retry-After` says in how many seconds to try again."""

    status = 429
    code = "overloaded"

    def __init__(self, message: str, retry_after_s: float, **detail: Any) -> None:
        super().__init__(message, retry_after_s=retry_after_s, **detail)
        self.retry_after_s = retry_after_s


class Unavailable(TailwrightError):
    """A dependency is not ready, such as the database; nothing was changed, try again."""

    status = 503
    code = "unavailable"


class DeadlineUnmet(Unavailable):
    """The request's deadline has passed, or would."""

    code = "deadline_unmet"


def nearest(name: str, valid: list[str]) -> str:
    """A phrase for an error message: the nearest valid name, or all of them when none is near."""
    close = get_close_matches(name, valid, n=1)
    return f"did you mean {close[0]!r}?" if close else f"valid names: {', '.join(sorted(valid))}"

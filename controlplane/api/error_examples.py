"""One example of each error, as the service would write it, for the API's document."""

from controlplane.contract.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    Overloaded,
    PreconditionFailed,
    TailwrightError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unsupported,
)

EXAMPLES: tuple[TailwrightError, ...] = (
    BadRequest(
        "body.name: is required, and missing",
        field="body.name",
        errors=[{"field": "body.name", "message": "is required, and missing"}],
    ),
    Unauthenticated("send 'Authorization: Bearer TOKEN'", field="Authorization"),
    Forbidden("this needs scope operate, the token 'dashboard' has read", field="Authorization", needed="operate"),
    NotFound("no rollout 7", field="rollout_id"),
    Conflict("pool: another rollout is under way in pool 'chat'", field="pool"),
    PreconditionFailed("If-Match: rollout 7 has changed since it was read", field="If-Match", etag='"7-4"'),
    TooLarge("body: at most 1048576 bytes here", field="body"),
    Unsupported("Content-Type 'text/plain' is not application/json", field="Content-Type"),
    Overloaded("too many listeners at once; try again later", retry_after_s=5.0),
    Unavailable("the database is not available; nothing was changed, try again"),
)


def example_of(cls: type[TailwrightError]) -> TailwrightError:
    return next(example for example in EXAMPLES if type(example) is cls)

"""Answers that are computed and written as JSON in one go, in one worker thread.

FastAPI would hand a synchronous endpoint and the check of its answer to a thread each, and every hand-over waits for
the interpreter's lock while reports come in.
"""

from collections.abc import Callable

from anyio import to_thread
from fastapi import Response
from pydantic import BaseModel


async def answered(compute: Callable[[], bytes]) -> Response:
    """`compute` gives the JSON; what it raises is the request's error."""
    return Response(await to_thread.run_sync(compute), media_type="application/json")


def as_json(answer: BaseModel) -> bytes:
    return answer.model_dump_json().encode()

"""The evidence of a rollout as a file: the JSON that the API answers."""

import json

from fastapi import APIRouter, Request, Response

from web.access.sessions import client_of
from web.access.threads import on_own_threads
from web.frame import row_number

row_number.register()
router = APIRouter()


@router.get("/rollouts/{number:row}/evidence.json")
@on_own_threads
def as_json(request: Request, number: int) -> Response:
    """The whole of it, unshortened."""
    evidence = client_of(request).rollout(number).evidence
    name = f"rollout-{number}-evidence.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(json.dumps(evidence, indent=2, allow_nan=False), media_type="application/json", headers=headers)

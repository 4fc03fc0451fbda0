"""What is kept of a person as a file: for the person, and for an admin."""

from fastapi import APIRouter, Request, Response

from web.access.sessions import client_of
from web.access.threads import on_own_threads
from web.frame import row_number

row_number.register()
router = APIRouter()


@router.get("/people/{number:row}.json")
@on_own_threads
def as_json(request: Request, number: int) -> Response:
    """The whole of it, unshortened."""
    data = client_of(request).personal_data(number)
    headers = {"Content-Disposition": f'attachment; filename="person-{number}.json"', "Cache-Control": "no-store"}
    body = data.model_dump_json(indent=2, exclude={"next"})
    return Response(body, media_type="application/json", headers=headers)

"""A study's report as a file, for a browser that is signed in and for whoever brings a token: `tailwright studies
report`."""

from fastapi import APIRouter, Request, Response

from controlplane.client import Client
from controlplane.contract.bearer import bearer_token
from controlplane.contract.clock import utc_now
from web.access.sessions import client_of, holder_of
from web.access.threads import on_own_threads
from web.frame import row_number
from web.studies.study_report import study_report

row_number.register()
router = APIRouter()


@router.get("/studies/{number:row}/report")
@on_own_threads
def as_html(request: Request, number: int) -> Response:
    """The whole document, under the study's own name."""
    document = study_report(_asking(request), number, utc_now())
    headers = {"Content-Disposition": f'attachment; filename="study-{number}.html"', "Cache-Control": "no-store"}
    return Response(document, media_type="text/html", headers=headers)


def _asking(request: Request) -> Client:
    """The API as the token's holder may use it, or as the browser's session may. Raises `Unauthenticated`."""
    authorization = request.headers.get("authorization")
    return client_of(request) if authorization is None else holder_of(request, bearer_token(authorization) or "")

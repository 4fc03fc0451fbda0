"""What the page of forecasts asks for until the forecast is there."""

from fastapi import APIRouter, Request, Response

from controlplane.contract.clock import utc_now
from web.access.sessions import viewer_of
from web.access.threads import on_own_threads
from web.frame.rendering import rendered
from web.frame.selection import selection_of
from web.whatif.whatif_page import so_far

router = APIRouter()


@router.get("/parts/whatif/forecast")
@on_own_threads
def forecast(request: Request) -> Response:
    """The forecast of the question in the address, or how far it is."""
    selection = selection_of(request.query_params, utc_now())
    return rendered(request, "parts/forecast_so_far.html", selection=selection, **so_far(viewer_of(request), selection))

"""The dashboard: pages, their live streams and files, an application of its own beneath the service's.

Guarantee: it shows only what the API answered to this browser's own session, or a moment ago to another of the same
scope; it has no access of its own.
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Form, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from controlplane.contract.clock import utc_now
from controlplane.contract.errors import NotFound
from controlplane.serving.joint_lookup import JointLookup
from web.access import sessions
from web.access.sessions import Api, ScopesOf, TellRead, TellRefused, client_of, signed_client_of, viewer_of
from web.access.threads import on_own_threads
from web.advice import advice_page
from web.alerting import alerting_page, rule_forms
from web.drawing import made_up
from web.explore import explore_page
from web.fleet import configs_page, fleet_page, node_page
from web.frame import broken_parts, live, row_number, states, themes
from web.frame.assets import ASSETS, KEPT, chosen
from web.frame.page import Page, Pages
from web.frame.page_document import page_sent
from web.frame.rendering import part_drawn, rendered, templates
from web.frame.selection import Selection, selection_of
from web.incidents import incident_forms, incident_page, incidents_page
from web.ledger import ledger_files, ledger_page
from web.pages import (
    alerts_page,
    gallery,
    issuer_sign_in,
    now_page,
    refusals,
    requests_page,
    runbook_page,
    sign_in,
)
from web.palette import entries
from web.rollouts import (
    evidence_file,
    guard_forms,
    guards_page,
    proposal_forms,
    proposal_page,
    rollout_actions,
    rollout_page,
    rollouts_list,
)
from web.settings import personal_file, routing_forms, settings_forms, settings_page
from web.studies import new_study_forms, new_study_page, report_file, studies_page
from web.whatif import forecast_part, whatif_page

PAGES = Pages.of(
    now_page.PAGE,
    explore_page.PAGE,
    requests_page.LIST,
    requests_page.PAGE,
    incidents_page.PAGE,
    incident_page.PAGE,
    alerts_page.LIST,
    alerts_page.PAGE,
    runbook_page.PAGE,
    alerting_page.LIST,
    alerting_page.PAGE,
    fleet_page.PAGE,
    node_page.PAGE,
    configs_page.PAGE,
    rollouts_list.LIST,
    guards_page.PAGE,
    proposal_page.PAGE,
    rollout_page.PAGE,
    studies_page.LIST,
    new_study_page.PAGE,
    studies_page.PAGE,
    whatif_page.PAGE,
    advice_page.PAGE,
    ledger_page.PAGE,
    settings_page.PAGE,
)
"""In the order of the navigation."""

templates.env.globals["navigation"] = PAGES.navigation()


row_number.register()
router = APIRouter()


def mount(
    app: FastAPI,
    service_url: str,
    count_forged: Callable[[], object] = lambda: None,
    voucher: str = "",
    trace_url: str | None = None,
    count_broken: Callable[[str], object] = lambda _: None,
    scopes_of: ScopesOf | None = None,
    tell_refused: TellRefused = lambda request, error: None,
    tell_read: TellRead = lambda secret, path: None,
) -> None:
    """Have the dashboard answer what no route of `app` does. `service_url` is where the API answers (its own address);
    `count_forged` hears of each form that was refused; `voucher` is what the API knows it by; `trace_url` is where
    traces are shown (`controlplane.contract.trace_url`); `count_broken` hears of each part that an error of our own
    kept from being drawn ("now/pools"); `scopes_of` looks up the sessions of all open pages at once, which are asked
    for one by one without it; `tell_refused` hears of each error that a page was answered with, `tell_read` of what a
    session was shown that another had asked for.

    As the router's last resort, for a mount at "/" would take requests from routes that refuse only their method.
    """
    dashboard = FastAPI(openapi_url=None, dependencies=app.router.dependencies)
    api = Api(service_url, count_forged, voucher, scopes_of, tell_refused, tell_read)
    sessions.install(dashboard, api)
    broken_parts.install(dashboard, broken_parts.BrokenParts(count_broken))
    dashboard.state.together = live.Together(JointLookup(api.scopes_of))
    dashboard.state.trace_url = trace_url
    dashboard.include_router(sign_in.router)
    dashboard.include_router(issuer_sign_in.router)
    dashboard.include_router(ledger_files.router)
    dashboard.include_router(evidence_file.router)
    dashboard.include_router(report_file.router)
    dashboard.include_router(rollout_actions.router)
    dashboard.include_router(guard_forms.router)
    dashboard.include_router(proposal_forms.router)
    dashboard.include_router(new_study_forms.router)
    dashboard.include_router(incident_forms.router)
    dashboard.include_router(rule_forms.router)
    dashboard.include_router(settings_forms.router)
    dashboard.include_router(personal_file.router)
    dashboard.include_router(routing_forms.router)
    dashboard.include_router(forecast_part.router)
    dashboard.include_router(router)
    for page in PAGES.by_name.values():
        dashboard.add_api_route(page.path, _opener(page), methods=["GET"])
    refusals.install(dashboard, app)
    app.router.default = dashboard


def _opener(page: Page) -> Callable[..., object]:
    """The handler of one page. What its path holds reaches its parts as the selection's own parameters."""

    @on_own_threads
    def opened(request: Request) -> Response:
        params = {**request.query_params, **request.path_params}
        return page_sent(request, page, viewer_of(request), selection_of(params, utc_now()))

    return opened


@router.get("/live/{name}")
async def stream(request: Request, name: str) -> Response:
    """A page's parts as they change."""
    page = PAGES[name]
    params = dict(request.query_params)
    fresh, heard = params.pop("fresh", ""), request.headers.get("last-event-id")
    selection_of(params, utc_now())  # What is wrong in the address is refused before the stream begins.
    viewer = await live.in_thread(lambda: viewer_of(request))

    def at_now() -> Selection:
        return selection_of(params, utc_now())

    together: live.Together = request.app.state.together
    return StreamingResponse(
        live.stream_of(request, live.Opened(page, viewer, at_now, fresh, heard), together),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


@router.get("/parts/{name}/{part_name}")
@on_own_threads
def part(request: Request, name: str, part_name: str) -> Response:
    """One part of a page, alone."""
    selection = selection_of(request.query_params, utc_now())
    found = PAGES[name].part_of(selection, part_name)
    return Response(str(part_drawn(request, found, viewer_of(request), selection)), media_type="text/html")


@router.get("/palette")
@on_own_threads
def palette(request: Request, q: str = "") -> Response:
    """What the palette finds for what was typed, as options of its list."""
    client = viewer_of(request)
    selection = selection_of(request.query_params, utc_now())
    return rendered(
        request, "components/palette_hits.html", hits=entries.offered(client, selection, PAGES.navigation(), q)
    )


@router.api_route("/assets/{name}", methods=["GET", "HEAD"])
async def asset(request: Request, name: str) -> Response:
    """A static file, in the smallest coding that the browser takes."""
    found = ASSETS.found(request.url.path)
    if found is None:
        raise NotFound(f"no file {name[:80]!r}", field="name")
    coding = chosen(request.headers.get("accept-encoding", ""), found.bodies)
    headers = {"Cache-Control": KEPT, "Vary": "Accept-Encoding"}
    if coding != "identity":
        headers["Content-Encoding"] = coding
    return Response(found.bodies[coding], media_type=found.media_type, headers=headers)


@router.post("/theme")
@on_own_threads
def choose_theme(
    request: Request,
    theme: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",
    form: Annotated[str, Form()] = "",
) -> Response:
    """Light, dark, or as the system has it, from now on in this browser."""
    signed_client_of(request, form)
    response = RedirectResponse(refusals.local(next), status_code=303)
    themes.keep(request, response, theme)
    return response


@router.get("/gallery")
@on_own_threads
def show_gallery(request: Request) -> Response:
    """Each component of the pages in each of its states, from made-up values."""
    client_of(request)
    shown: dict[str, Any] = {"words": states.WORDS, "charts": gallery.charts(), "drawings": made_up.drawings()}
    return rendered(request, "pages/gallery.html", **shown)

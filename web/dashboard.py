"""The dashboard: pages, live fragments and chart data, an application of its own beneath the service's.

Guarantee: it shows only what the API answered to this browser's own token; it has no access of its own.
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Form, Request, Response
from fastapi.responses import RedirectResponse
from starlette.convertors import Convertor, register_url_convertor

from controlplane.contract.errors import NotFound
from controlplane.contract.metrics import REQUEST_PARTS
from web import charts, gallery, issuer_sign_in, refusals, sessions, sign_in, states, themes
from web.assets import ASSETS, KEPT, chosen
from web.drawing import made_up
from web.fragments import context_of, pools
from web.rendering import rendered
from web.sessions import Api, client_of, signed_client_of
from web.spans import STEP_OF, span_of
from web.threads import on_own_threads

PAGES = {
    "overview": ("headline", "open_alerts", "activity", "fleet", "recent"),
    "fleet": ("fleet",),
    "latency": ("binds", "exemplars", "slowest"),
    "alerts": ("alerts",),
    "studies": ("studies",),
    "rollouts": ("rollouts",),
    "ledger": ("ledger",),
    "people": ("people",),
}
"""Each page and the live fragments on it."""

DETAILS = {"alerts": "alert", "studies": "study", "rollouts": "rollout"}

CHARTS = {"latency": charts.latency, "parts": charts.parts}


class RowNumber(Convertor[int]):
    """A number in a path that a row may have: Starlette's own `int` fails on one of thousands of digits."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("row", RowNumber())
router = APIRouter()


def mount(app: FastAPI, service_url: str, count_forged: Callable[[], object] = lambda: None, voucher: str = "") -> None:
    """Have the dashboard answer what no route of `app` does. `service_url` is where the API answers (its own address);
    `count_forged` hears of each form that was refused; `voucher` is what the API knows it by.

    As the router's last resort, for a mount at "/" would take requests from routes that refuse only their method.
    """
    dashboard = FastAPI(openapi_url=None, dependencies=app.router.dependencies)
    sessions.install(dashboard, Api(service_url, count_forged, voucher))
    dashboard.include_router(sign_in.router)
    dashboard.include_router(issuer_sign_in.router)
    dashboard.include_router(router)
    refusals.install(dashboard, app)
    app.router.default = dashboard


@router.get("/")
@on_own_threads
def overview(request: Request) -> Response:
    return _show(request, "overview")


@router.get("/fragments/{name}")
@on_own_threads
def fragment(request: Request, name: str) -> Response:
    """One live part of a page, alone."""
    context = context_of(name, client_of(request), request.query_params)
    return rendered(request, f"fragments/{name}.html", **context)


@router.get("/charts/{name}")
@on_own_threads
def chart(request: Request, name: str) -> Response:
    """One chart, drawn."""
    if name not in CHARTS:
        raise NotFound(f"no chart {name!r}", field="name")
    params = request.query_params
    context = CHARTS[name](client_of(request), params)
    return rendered(request, "components/line_chart.html", title=params.get("title", ""), **context)


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
    return rendered(request, "gallery.html", page="gallery", **shown)


@router.post("/rollouts/{number:row}/{action}")
@on_own_threads
def act_on_rollout(request: Request, number: int, action: str, form: Annotated[str, Form()] = "") -> Response:
    """Start, approve or cancel a rollout as the signed-in token; the API decides whether it may."""
    client = signed_client_of(request, form)
    if action == "start":
        client.start_rollout(number)
    elif action == "approve":
        client.approve_rollout(number)
    elif action == "cancel":
        client.cancel_rollout(number)
    else:
        raise NotFound(f"no action {action!r} on a rollout", field="action")
    return RedirectResponse(f"/rollouts/{number}", status_code=303)


@router.post("/people/sessions/{number:row}/end")
@on_own_threads
def end_session(request: Request, number: int, form: Annotated[str, Form()] = "") -> Response:
    """End a session as whoever is signed in; the API decides whether it may."""
    signed_client_of(request, form).end_one_session(number)
    return RedirectResponse("/people", status_code=303)


@router.get("/nodes/{name}")
@on_own_threads
def node_page(request: Request, name: str) -> Response:
    params = {"node": name}
    context = {**context_of("node", client_of(request), params), **context_of("host", client_of(request), params)}
    return rendered(request, "node.html", page="fleet", **context)


@router.get("/{name}/{number:row}")
@on_own_threads
def detail(request: Request, name: str, number: int) -> Response:
    if name not in DETAILS:
        raise NotFound(f"no page {request.url.path}")
    fragment_name = DETAILS[name]
    context = context_of(fragment_name, client_of(request), {"id": str(number)})
    return rendered(request, "detail.html", page=name, number=number, fragment=fragment_name, **context)


@router.get("/{name}")
@on_own_threads
def page(request: Request, name: str) -> Response:
    return _show(request, name)


def _show(request: Request, name: str) -> Response:
    if name not in PAGES:
        raise NotFound(f"no page {request.url.path}")
    params = dict(request.query_params)
    span = span_of(params)
    client = client_of(request)
    context: dict[str, Any] = {}
    for part in PAGES[name]:
        context.update(context_of(part, client, params))
    serving = pools(context.get("nodes") or client.nodes())
    pool = params.get("pool") or (serving[0] if serving else "")
    return rendered(
        request,
        f"{name}.html",
        page=name,
        params=params,
        # A pool whose nodes are gone still has its past: it is shown as what it is, not as another one.
        pools=sorted({*serving, pool} - {""}),
        pool=pool,
        span=span,
        spans=list(STEP_OF),
        parts=[metric.short for metric in REQUEST_PARTS],
        **context,
    )

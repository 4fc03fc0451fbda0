"""The dashboard: pages, live fragments, chart data, sign-in. Mounted on the service by the command line.

Guarantee: it shows only what the API answered to this browser's own token; it has no access of its own.
"""

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import plotly.offline
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates

from controlplane.contract.errors import Forbidden, TrimtabError, Unauthenticated
from controlplane.contract.metrics import REQUEST_PARTS
from web import charts
from web.format import FILTERS
from web.sessions import Clients, client_of, sign_in, sign_out
from web.views import STEP_OF, context_of, pools

HERE = Path(__file__).parent
PAGES = {
    "overview": ("headline", "open_alerts", "activity", "fleet", "recent"),
    "fleet": ("fleet",),
    "latency": ("exemplars", "slowest"),
    "alerts": ("alerts",),
    "studies": ("studies",),
    "rollouts": ("rollouts",),
    "ledger": ("ledger",),
}
"""Each page and the live fragments on it."""

DETAILS = {"alerts": "alert", "studies": "study", "rollouts": "rollout"}

templates = Jinja2Templates(HERE / "templates")
templates.env.filters.update(FILTERS)
templates.env.trim_blocks = True
templates.env.lstrip_blocks = True

router = APIRouter(include_in_schema=False)

THREADS = CapacityLimiter(8)

P = ParamSpec("P")
R = TypeVar("R")


def own_threads(handler: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Run `handler` on the dashboard's own threads.

    Pages call the API of the same process: were both served from one pool, enough pages at once would hold every
    thread and wait for API calls that no thread is left to answer.
    """

    @wraps(handler)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return await to_thread.run_sync(partial(handler, *args, **kwargs), limiter=THREADS)

    return run


def mount(app: FastAPI, service_url: str) -> None:
    """Add the dashboard to `app`. `service_url` is where the API answers (the service's own address)."""
    app.state.web_clients = Clients(service_url)
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")


def _page(request: Request, template: str, **context: Any) -> HTMLResponse:
    return templates.TemplateResponse(request, template, context)


def _failed(request: Request, error: TrimtabError) -> Response:
    if isinstance(error, Unauthenticated):
        if request.url.path.startswith(("/fragments", "/charts")):
            return Response(status_code=401)
        response: Response = RedirectResponse(f"/login?next={request.url.path}", status_code=303)
        sign_out(response)
        return response
    return templates.TemplateResponse(request, "error.html", {"error": error}, status_code=error.status)


def _local(path: str) -> str:
    """A path on this site, whatever was asked for: no open redirect."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


@router.get("/login")
@own_threads
def login(request: Request, token: str | None = None, next: str = "/") -> Response:
    """The sign-in form; with ?token= (the link the command line prints) it signs in at once."""
    if token is None:
        return _page(request, "login.html", next=_local(next), error=None)
    return _enter(request, token, next)


@router.post("/login")
@own_threads
def login_form(request: Request, token: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> Response:
    return _enter(request, token.strip(), next)


def _enter(request: Request, token: str, next: str) -> Response:
    clients: Clients = request.app.state.web_clients
    try:
        scope = clients.of(token).whoami().scope
        if scope not in {"read", "operate", "admin"}:
            raise Forbidden(f"a token of scope {scope.value} cannot read the dashboard")
    except (Unauthenticated, Forbidden) as error:
        return templates.TemplateResponse(
            request, "login.html", {"next": _local(next), "error": error.message}, status_code=error.status
        )
    response = RedirectResponse(_local(next), status_code=303)
    sign_in(response, token, secure=request.url.scheme == "https")
    return response


@router.post("/logout")
@own_threads
def logout() -> Response:
    response = RedirectResponse("/login", status_code=303)
    sign_out(response)
    return response


@router.get("/")
@own_threads
def overview(request: Request) -> Response:
    return _show(request, "overview")


@router.get("/fragments/{name}")
@own_threads
def fragment(request: Request, name: str) -> Response:
    """One live part of a page, alone."""
    try:
        context = context_of(name, client_of(request), request.query_params)
    except TrimtabError as error:
        return _failed(request, error)
    return _page(request, f"fragments/{name}.html", **context)


@router.get("/charts/{name}")
@own_threads
def chart(request: Request, name: str) -> Response:
    sources: dict[str, Any] = {"latency": charts.latency, "marks": charts.marks}
    try:
        if name not in sources:
            return Response(status_code=404)
        return JSONResponse(sources[name](client_of(request), request.query_params))
    except TrimtabError as error:
        return JSONResponse(error.body(), status_code=error.status)


@router.get("/scripts/plotly.min.js")
@own_threads
def plotly_script() -> Response:
    """Plotly's script as its Python distribution ships it: nothing is fetched from elsewhere."""
    return Response(
        plotly.offline.get_plotlyjs(),
        media_type="text/javascript",
        headers={"Cache-Control": "public, max-age=86400"},
    )


@router.post("/rollouts/{number:int}/{action}")
@own_threads
def act_on_rollout(request: Request, number: int, action: str) -> Response:
    """Start or cancel a rollout as the signed-in token; the API decides whether it may."""
    try:
        client = client_of(request)
        if action == "start":
            client.start_rollout(number)
        elif action == "cancel":
            client.cancel_rollout(number)
        else:
            return Response(status_code=404)
    except TrimtabError as error:
        return _failed(request, error)
    return RedirectResponse(f"/rollouts/{number}", status_code=303)


@router.get("/nodes/{name}")
@own_threads
def node_page(request: Request, name: str) -> Response:
    try:
        context = context_of("node", client_of(request), {"node": name})
    except TrimtabError as error:
        return _failed(request, error)
    return _page(request, "node.html", page="fleet", **context)


@router.get("/{name}/{number:int}")
@own_threads
def detail(request: Request, name: str, number: int) -> Response:
    if name not in DETAILS:
        return Response(status_code=404)
    fragment_name = DETAILS[name]
    try:
        context = context_of(fragment_name, client_of(request), {"id": str(number)})
    except TrimtabError as error:
        return _failed(request, error)
    return _page(request, "detail.html", page=name, number=number, fragment=fragment_name, **context)


@router.get("/{name}")
@own_threads
def page(request: Request, name: str) -> Response:
    return _show(request, name)


def _show(request: Request, name: str) -> Response:
    if name not in PAGES:
        return Response(status_code=404)
    params = dict(request.query_params)
    try:
        client = client_of(request)
        context: dict[str, Any] = {}
        for part in PAGES[name]:
            context.update(context_of(part, client, params))
        serving = pools(context.get("nodes") or client.nodes())
    except TrimtabError as error:
        return _failed(request, error)
    return _page(
        request,
        f"{name}.html",
        page=name,
        params=params,
        pools=serving,
        pool=params.get("pool") or (serving[0] if serving else ""),
        span=params.get("span", "15m"),
        spans=list(STEP_OF),
        parts=[metric.short for metric in REQUEST_PARTS],
        **context,
    )

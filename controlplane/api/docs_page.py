"""`/docs`: Swagger UI over the API's document, from files of the Python distribution `fastapi-offline`.

Guarantee: the page fetches nothing from another host, so it works where there is no internet, and tells nobody of it.
"""

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

PAGE, FILES = "/docs", "/docs/files"
_DISTRIBUTION = ("fastapi_offline", "static")
_PARAMETERS = {
    "validatorUrl": None,  # Otherwise the document's address is sent to validator.swagger.io.
    "docExpansion": "none",
    "filter": True,
    "displayRequestDuration": True,
}


def install(app: FastAPI) -> None:
    """Serve the page and its files."""
    app.mount(FILES, StaticFiles(packages=[_DISTRIBUTION]), name="docs-files")
    app.add_route(PAGE, _page, include_in_schema=False)


async def _page(request: Request) -> HTMLResponse:
    root = request.scope.get("root_path", "").rstrip("/")
    return get_swagger_ui_html(
        openapi_url=f"{root}{request.app.openapi_url}",
        title=f"{request.app.title} API",
        swagger_js_url=f"{root}{FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{FILES}/swagger-ui.css",
        swagger_favicon_url=f"{root}{FILES}/favicon.png",
        swagger_ui_parameters=_PARAMETERS,
    )

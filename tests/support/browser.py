"""A browser without a window, told what to do over a pipe, for tests of pages.

What it is told are commands of the Chrome DevTools Protocol, as JSON with a zero byte behind each.
It has no network.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking"),
    "--hide-scrollbars",
)
_SECONDS = 60.0
# It reads from 3 and writes to 4, whatever the pipes are; first both are moved out of the way.
_WITH_PIPES = """
import os, sys
read, write = (os.dup(int(number)) for number in sys.argv[1:3])
read, write = (os.dup(fd) if fd in (3, 4) else fd for fd in (read, write))
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

Scheme = Literal["light", "dark"]


class Page:
    """A page that is open: evaluates JavaScript, has a size and a colour scheme, is pictured."""

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._answers = to, answers
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []
        target = self._command("Target.createTarget", url="about:blank")["targetId"]
        attached = self._command("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime"):
            self._command(f"{domain}.enable")

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a file, and wait until its scripts have run."""
        self.errors.clear()
        self._command("Page.navigate", url="about:blank")
        self._command("Page.navigate", url=f"file://{path}{fragment}")
        self.wait_for("document.readyState === 'complete' && location.protocol === 'file:'")

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression, of which a promise is waited for."""
        given = {"expression": script, "awaitPromise": True, "returnByValue": True}
        answer = self._command("Runtime.evaluate", **given)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + _SECONDS
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < until, f"never true: {condition}"
            time.sleep(0.02)

    def resize(self, width: int, height: int = 900) -> None:
        """Give the page a size in pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self._command("Emulation.setDeviceMetricsOverride", mobile=False, **size)

    def colour(self, scheme: Scheme, media: str = "") -> None:
        """Prefer light or dark, and be of a medium, such as print."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._command("Emulation.setEmulatedMedia", media=media, features=[feature])

    def picture(self, path: Path) -> None:
        """Write what is seen to a file."""
        found = self._command("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(found))

    def _command(self, method: str, **params: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("method") == "Runtime.exceptionThrown":
                details = answer["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", details).get("description", details))
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _read(self) -> Any:
        while b"\0" not in self._rest:
            read = os.read(self._answers, 1 << 16)
            assert read, "the browser has ended"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def open_browser() -> Iterator[Page]:
    """Start a browser with one page, and end it with the block."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        read_by_it, to = os.pipe()
        answers, written_by_it = os.pipe()

        command = [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}"]
        start = [sys.executable, "-S", "-c", _WITH_PIPES, str(read_by_it), str(written_by_it)]
        process = subprocess.Popen(
            [*start, *command],
            pass_fds=(read_by_it, written_by_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_by_it)
        os.close(written_by_it)
        try:
            yield Page(to, answers)
        finally:
            process.terminate()
            process.wait(20)
            os.close(to)
            os.close(answers)


def axe_violations(page: Page) -> list[Any]:
    """Return what axe-core, which is put into the page, has against it."""
    spec = find_spec("axe_core_python")
    assert spec is not None
    assert spec.origin is not None
    script = Path(spec.origin).with_name("axe.min.js")
    page.evaluate(script.read_text(encoding="utf-8") + "; true")
    found = page.evaluate("axe.run()")
    return [(v["id"], [n["html"] for n in v["nodes"]][:3]) for v in found["violations"]]

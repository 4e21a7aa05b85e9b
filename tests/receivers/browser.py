"""A headless Chromium, driven over its DevTools protocol by two pipes: nothing else has to be installed.

``SESSIONPIPE_TEST_CHROMIUM`` names the program where it is not on the PATH.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


def chromium() -> str:
    """Where Chromium is; the test is skipped when it is not there."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = os.environ.get("SESSIONPIPE_TEST_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.skip("no chromium on the PATH and no SESSIONPIPE_TEST_CHROMIUM")
    return found


class Browser:
    """One browser; :meth:`page` opens a page in it."""

    def __init__(self, folder: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def wire() -> None:
            # What it reads is its descriptor 3, what it writes its 4.
            source, target = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(source, 3)
            os.dup2(target, 4)

        self._process = subprocess.Popen(
            [chromium(), *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4, theirs_in, theirs_out),
            preexec_fn=wire,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "TZ": "UTC"},
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._last = 0
        #: What each page's console and its security policy complained about.
        self.complaints: dict[str, list[str]] = {}

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Ask the browser something; what it answers."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read(60)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._listen(answer)

    def _listen(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        said = self.complaints.setdefault(event.get("sessionId", ""), [])
        if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            said.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        if event.get("method") == "Runtime.exceptionThrown":
            said.append(str(params["exceptionDetails"]))

    def _read(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise AssertionError("the browser does not answer")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise AssertionError("the browser has ended")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def page(self, url: str, **how: Any) -> Page:
        """A page at ``url``, once it has loaded."""
        return self.tab(self.call("Target.createBrowserContext")["browserContextId"], url, **how)

    def tab(self, context: str, url: str, **how: Any) -> Page:
        """A page at ``url`` that shares its cookies and its connections with the others of a context."""
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, context, session)
        page.prepare(**how)
        page.go(url)
        return page

    def close(self) -> None:
        """End it, and everything it started."""
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE_S)
        os.close(self._in)
        os.close(self._out)


class Page:
    """A page of a browser, with cookies of its own."""

    def __init__(self, browser: Browser, context: str, session: str) -> None:
        self._browser = browser
        self._context = context
        self._session = session

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def prepare(
        self,
        *,
        width: int = 1000,
        height: int = 900,
        dark: bool = False,
        scale: float = 1,
        script: bool = True,
    ) -> None:
        """How it looks at the page."""
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self._call("Emulation.setEmulatedMedia", features=[scheme, still])
        self._call("Emulation.setScriptExecutionDisabled", value=not script)

    def go(self, url: str) -> None:
        """Go somewhere, and wait until it is there."""
        self._call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def another(self, url: str) -> Page:
        """A page beside this one, in front of it."""
        return self._browser.tab(self._context, url)

    def front(self) -> None:
        """Have it seen, and the one that was in front hidden."""
        self._call("Page.bringToFront")

    def get(self, expression: str) -> Any:
        """What a JavaScript expression is on the page."""
        done = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in done:
            raise AssertionError(done["exceptionDetails"]["exception"]["description"])
        return done["result"].get("value")

    def until(self, expression: str, seconds: float = 60) -> Any:
        """Wait until an expression is true; what it was."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError):
                if value := self.get(expression):
                    return value
            time.sleep(0.02)
        text = self.get("document.documentElement.outerHTML")
        raise AssertionError(f"waited in vain for {expression} in {text[:3000]}")

    def text(self, selector: str) -> str:
        """What a person reads there."""
        return str(self.get(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def press(self, key: str) -> None:
        """Press a key, as Tab or Enter."""
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
                **text,
            )

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what it looks like."""
        done = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(done["data"]))

    @property
    def complaints(self) -> list[str]:
        """What the browser complained about: scripts that failed, what its policy refused."""
        self.get("1")
        return self._browser.complaints.get(self._session, [])

    def close(self) -> None:
        """Close it, and forget its cookies."""
        self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)


@contextlib.contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser for as long as it is needed."""
    browser = Browser(folder)
    try:
        yield browser
    finally:
        browser.close()

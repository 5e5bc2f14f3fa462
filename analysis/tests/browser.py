"""A headless Chromium driven over its debugging pipe (Chrome DevTools Protocol): real keys, real widths, pictures.

The pipe (file descriptors 3 and 4, JSON messages that end in NUL) needs neither a port nor a WebSocket library.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# key name -> (code, virtual key, text typed)
KEYS = {"Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), " ": ("Space", 32, " ")}


class Browser:
    """One page of one browser; `console` collects its errors and exceptions. A context manager."""

    def __init__(self, profile: str, width: int, height: int = 1000, seconds: float = 60):
        self.console: list[str] = []
        self._deadline = time.monotonic() + seconds
        self._number, self._pending = 0, b""
        page_reads, self._write = _pipe()
        self._read, page_writes = _pipe()
        command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
                   f"--user-data-dir={profile}", "about:blank"]
        actions = [(os.POSIX_SPAWN_DUP2, page_reads, 3), (os.POSIX_SPAWN_DUP2, page_writes, 4)]
        actions += [(os.POSIX_SPAWN_OPEN, output, os.devnull, os.O_WRONLY, 0) for output in (1, 2)]
        self._process = os.posix_spawn(PROGRAM, command, os.environ, file_actions=actions)
        os.close(page_reads)
        os.close(page_writes)
        self._session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_) -> None:
        os.close(self._write)
        os.close(self._read)
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)

    def send(self, method: str, **parameters):
        """Sends one command and waits for its answer; events on the way are looked at for errors of the page."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            self._note(answer)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path: os.PathLike[str] | str, ready: str) -> None:
        """Opens a file and waits until the JavaScript expression `ready` is true."""
        self.send("Page.navigate", url=f"file://{os.path.abspath(path)}")
        while not self.run(ready):
            time.sleep(0.05)

    def run(self, expression: str):
        """Value of a JavaScript expression (a promise is awaited)."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Presses and releases one key where the focus is."""
        code, number, text = KEYS[key]
        named = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.send("Input.dispatchKeyEvent", type="keyUp", **named)

    def picture(self, path: os.PathLike[str] | str, clip: tuple[float, float, float, float] | None = None) -> None:
        """PNG of the whole page, or of (x, y, width, height) of it."""
        x, y, width, height = clip or (0, 0, *self.run("[innerWidth, document.documentElement.scrollHeight]"))
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": x, "y": y, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def _receive(self) -> dict:
        while b"\0" not in self._pending:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError("the browser did not answer in time")
            received = os.read(self._read, 1 << 16)
            if not received:
                raise RuntimeError("the browser ended")
            self._pending += received
        message, self._pending = self._pending.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: dict) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.console.append(json.dumps(event["params"]["exceptionDetails"]))
        elif event.get("method") == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"):
            self.console.append(json.dumps(event["params"]["args"]))
        elif event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"):
            self.console.append(event["params"]["entry"]["text"])


def _pipe() -> tuple[int, int]:
    """(reading, writing) end, both above 9, so that putting one at 3 cannot overwrite the other."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved

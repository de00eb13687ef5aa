"""A report that is made again whenever one of its folders changes, on a local HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from theodolite.api.report import find_folders, read_inputs, write_page
from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError
from theodolite.escaping import escape_html
from theodolite.storage.file_names import FACTS
from theodolite.studies.series.files import FACTS as SERIES_FACTS

SECONDS = 2  # between two questions of the browser
LAST_PORT = 65_535

# The report is in a frame: its security policy allows no connection, and a reload keeps its address and place.
FRAME = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Theodolite: __NAME__</title>
<style>html,body,iframe{margin:0;border:0;width:100%;height:100%;display:block}</style></head>
<body><iframe id="report" title="Report" src="/report"></iframe><script>
let shown = null;
const ask = async () => {
  try {
    const version = (await (await fetch("/version")).json()).version;
    if (shown !== null && version !== shown) document.getElementById("report").contentWindow.location.reload();
    shown = version;
  } catch (error) {}
};
setInterval(ask, __SECONDS__000);
ask();
</script></body></html>
"""
WAITING = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Theodolite</title></head>
<body style="font-family:sans-serif;margin:3em"><p>__REASON__</p>
<p>This page is updated when there is a measurement.</p></body></html>
"""


class LivePage:
    """The page about folders that grow. It is made again when it is requested after a change."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = list(folders)
        self._lock = Lock()
        self._made = ("", b"")  # version and page

    def version(self) -> str:
        """Return a text that changes when a survey or series is finished, or gets another step."""
        seen = []
        for given in self.folders:
            try:
                inside = find_folders(given)
            except InputError:  # nothing is there yet
                inside = []
            for folder in inside:
                for name in (FACTS, SERIES_FACTS):
                    if (folder / name).is_file():
                        status = (folder / name).stat()
                        seen.append(f"{folder} {status.st_mtime_ns} {status.st_size}")
        return " | ".join(seen)

    def page(self) -> bytes:
        """Return the page: the last one if the folders cannot be read now, for instance while they are written."""
        with self._lock:
            version = self.version()
            if version == self._made[0] and self._made[1]:
                return self._made[1]
            try:
                self._made = (version, self._render())
            except (TheodoliteError, OSError) as error:
                if not self._made[1]:
                    return WAITING.replace("__REASON__", escape_html(str(error))).encode()
            return self._made[1]

    def _render(self) -> bytes:
        listener = Listener()
        with TemporaryDirectory() as folder:
            file = Path(folder) / "report.html"
            write_page(read_inputs(self.folders, listener.warn), file, listener)
            return file.read_bytes()


def make_server(folders: Sequence[Path], port: int = 0) -> ThreadingHTTPServer:
    """Return a server of the live page, which only this machine can reach. Port 0 takes any free port."""
    if not 0 <= port <= LAST_PORT:
        raise InputError(f"port must be between 0 and {LAST_PORT} (got {port}); 0 takes any free one.")
    live = LivePage(folders)
    name = escape_html(", ".join(folder.name or str(folder) for folder in folders))
    frame = FRAME.replace("__NAME__", name).replace("__SECONDS__", str(SECONDS)).encode()
    answers: dict[str, tuple[str, Callable[[], bytes]]] = {
        "/": ("text/html; charset=utf-8", lambda: frame),
        "/report": ("text/html; charset=utf-8", live.page),
        "/version": ("application/json", lambda: json.dumps({"version": live.version()}).encode()),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer a request of the browser."""
            kind, answer = answers.get(self.path.partition("?")[0], ("", lambda: b""))
            if not kind:
                self.send_error(404)
                return
            body = answer()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: object) -> None:
            """Print nothing for each request."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InputError(f"port {port} cannot be used ({error.strerror}); give another one, or 0.") from error
    server.daemon_threads = True
    return server

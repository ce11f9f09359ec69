"""`dpcalib serve`: the commands as pages, for browsers on this computer alone."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import parse_qsl

import click

from privacy.cli.help import Command
from privacy.cli.pages import FORMS, STYLE, page, template

HOST = "127.0.0.1"
_BYTES, _AT_ONCE = 200_000, 2
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send Origin: null
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Server(ThreadingTCPServer):
    """A server on the loopback address, whose questions take at most `seconds`."""

    allow_reuse_address = os.name == "posix"  # elsewhere, another process could take the port
    daemon_threads = True

    def __init__(self, port: int, seconds: float) -> None:
        super().__init__((HOST, port), _Handler)
        self.seconds, self.free = seconds, threading.BoundedSemaphore(_AT_ONCE)
        suffix = "" if self.server_address[1] == 80 else f":{self.server_address[1]}"
        self.hosts = [name + suffix for name in (HOST, "localhost")]  # as browsers send them

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # the client went away
            super().handle_error(request, client_address)

    def answer(self, name: str, texts: dict[str, str]) -> tuple[int, str]:
        """Return the status and the page of a question."""
        command = [sys.executable, "-P", "-Xutf8", "-m", "privacy.cli.pages", f"{self.seconds:.0f}"]
        question: dict[str, Any] = {"input": json.dumps([name, texts]), "encoding": "utf-8"}
        question["env"] = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # each takes memory
        told = f"{_AT_ONCE} questions are being computed. Wait for their answers."
        if self.free.acquire(blocking=False):
            try:
                done = subprocess.run(  # noqa: S603 - a fixed command
                    command, stdout=-1, timeout=self.seconds, check=False, **question
                )
                if done.stdout and done.returncode in (0, 2):
                    return (400 if done.returncode else 200), done.stdout
                told = "The question needs too much time or memory. Ask a smaller one."
            except subprocess.TimeoutExpired:
                told = f"No answer after {self.seconds:g} s. Run the command in a shell."
            finally:
                self.free.release()
        return 503, page(FORMS[name], texts, error=told)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 10
    server_version, sys_version = "dpcalib", ""
    error_message_format, error_content_type = "%(message)s\n", "text/plain; charset=utf-8"

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def do_GET(self) -> None:
        path = self.path.removeprefix("/") or "sigma"
        if self._foreign():
            return
        if path == "page.css":
            self._reply(200, STYLE, "css")
        elif path in FORMS:
            self._reply(200, page(FORMS[path]))
        else:
            self.send_error(404, "No such page.")

    def do_POST(self) -> None:
        path, length = self.path.removeprefix("/"), self.headers.get("Content-Length", "")
        if self._foreign():
            return
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > _BYTES:
            self.send_error(413, f"Send a Content-Length of at most {_BYTES}.")
            return
        body = self.rfile.read(int(length))
        try:
            sent = dict(parse_qsl(body.decode(), errors="strict", max_num_fields=64))
            texts = {name: text.strip() for name, text in sent.items() if text.strip()}
            if path in FORMS and texts.keys() <= set(FORMS[path].asked.names):
                self._reply(*self.server.answer(path, texts))
                return
        except ValueError:
            pass
        self.send_error(400, "Send the fields of a form.")

    def _foreign(self) -> bool:
        """Refuse other names of this host (DNS rebinding), and requests that other sites cause."""
        host, origin = (", ".join(self.headers.get_all(name, [])) for name in ("Host", "Origin"))
        same = host in self.server.hosts and origin in {"", f"http://{host}"}
        if same and self.headers.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}:
            return False
        self.send_error(403, f"Open http://{self.server.hosts[0]} directly in a browser.")
        return True

    def _reply(self, status: int, text: str, kind: str = "html") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())


_PORT = "Port; 0 is any free port.  [default: 8765]"
_SECONDS = "Time limit of one answer.  [default: 30]"


@click.command(cls=Command)
@click.option("--port", type=click.IntRange(0, 65535), default=8765, help=_PORT)
@click.option("--seconds", type=click.IntRange(1, 3600), default=30, help=_SECONDS)
def serve(port: int, seconds: int) -> None:
    """Serve a calculator for your browser. Other computers cannot open it."""
    try:
        template()
        server = Server(port, seconds)
    except ModuleNotFoundError as missing:
        raise click.ClickException(str(missing)) from missing
    except OSError as error:
        told = f"Port {port} cannot be used ({error.strerror}). Pass another --port."
        raise click.ClickException(told) from error
    with server:
        click.echo(f"Open http://{server.hosts[0]} in a browser. Press Ctrl-C to stop.")
        server.serve_forever()

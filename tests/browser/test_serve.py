"""`dpcalib serve`: its answers, and what it refuses, by plain sockets and in a browser."""

import html
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

from privacy import answers
from privacy.cli import output
from privacy.cli.pages import FORMS, answer
from privacy.cli.serve import HOST, Server, serve

RUN = {"noise_multiplier": "1.1", "delta": "1e-5", "sampling_probability": "1/100", "steps": "100"}
SHUFFLED = {"sigma": "3", "delta": "1e-5", "sampler": "shuffle", "epochs": "2"}
PLAN = """
schema = "dpcalib.plan/1"
name = "<script>"
budget.delta = 1e-6
[[part]]
name = "sum"
type = "Gaussian"
noise_multiplier = 2.5
"""
CSP = (
    b"Content-Security-Policy: default-src 'none'; style-src 'self'; form-action 'self'; "
    b"base-uri 'none'; frame-ancestors 'none'\r\n"
)


@pytest.fixture(scope="module")
def server():
    with Server(0, 60) as opened:
        threading.Thread(target=opened.serve_forever, daemon=True).start()
        yield opened
        opened.shutdown()


@pytest.fixture
def never_asked(server, monkeypatch):
    asked = []
    monkeypatch.setattr(server, "answer", lambda *question: asked.append(question) or (200, ""))
    yield server
    assert not asked


def sent(server, method, path, *headers, body="", host=None):
    """Send one request as it is; return the status and everything that came back."""
    host = [f"Host: {host or server.hosts[0]}"] if host != "" else []
    if body and not any(header.startswith("Content-Length") for header in headers):
        headers = (*headers, f"Content-Length: {len(body)}")
    text = "\r\n".join([f"{method} {path} HTTP/1.1", *host, *headers, "", body])
    with socket.create_connection(server.server_address, timeout=60) as connection:
        connection.sendall(text.encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: connection.recv(65536), b""))
    return int(reply.split()[1]), reply


def test_only_this_computer_can_connect(server):
    assert server.server_address[0] == HOST == "127.0.0.1"
    (listening,) = {address for *_, address in socket.getaddrinfo(*server.server_address)}
    assert listening[0] == HOST
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", server.server_address[1]), timeout=5)


def test_host_on_port_80_has_no_port_as_browsers_leave_it_out():
    class OnPort80(Server):
        def server_bind(self):
            super().server_bind()
            self.server_address = (HOST, 80)

    with OnPort80(0, 60) as opened:
        assert opened.hosts == [HOST, "localhost"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_hosts_and_origins_are_refused(never_asked, method):
    server, port = never_asked, never_asked.server_address[1]
    body = urlencode(RUN) * (method == "POST")
    hosts = ["evil.example", f"evil.example:{port}", "127.0.0.1", f"{HOST}:{port}.evil.example"]
    for host in [*hosts, f"[::1]:{port}", f"0.0.0.0:{port}", f"user@{HOST}:{port}", ""]:
        assert sent(server, method, "/epsilon", body=body, host=host)[0] == 403, host
    own = f"http://{HOST}:{port}"
    for header in (
        f"Host: {server.hosts[0]}",
        "Origin: null",
        "Origin: http://evil.example",
        f"Origin: https://{HOST}:{port}",
        f"Origin: http://localhost:{port}",
        f"Origin: {own}\r\nOrigin: {own}",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ):
        status, reply = sent(server, method, "/epsilon", header, body=body)
        assert status == 403, header
        assert CSP in reply
        assert b"Access-Control" not in reply


def test_size_and_form_of_a_question_are_bounded(never_asked):
    server, post = never_asked, ("POST", "/epsilon")
    for length in ("200001", "999999999", "9" * 30, "-1", "1.5", "0x10", "", "1, 1", "\xb2"):
        assert sent(server, *post, f"Content-Length: {length}")[0] == 413, length
    assert (
        sent(server, *post, "Transfer-Encoding: chunked", "", "5\r\ndelta\r\n0\r\n\r\n")[0] == 413
    )
    for body in ("delta=%ff", "other=1", "delta=1&" * 65, "plan=x", "certify=\xff"):
        assert sent(server, *post, body=body)[0] == 400, body
    for path in (
        "/",
        "/nothing",
        "/epsilon?delta=1",
        "/../epsilon",
        "http://x/epsilon",
    ):
        assert sent(server, "POST", path, body="delta=1")[0] == 400, path
    for path in ("/nothing", "/serve.py", "/../pages.py", "/page.css/", "/epsilon?delta=1"):
        assert sent(server, "GET", path)[0] == 404, path
    for method in ("PUT", "OPTIONS", "HEAD", "TRACE", "x" * 70000):
        assert sent(server, method, "/epsilon")[0] >= 400
    assert sent(server, "GET", "/epsilon")[0] == 200


def test_every_reply_has_the_security_headers(server):
    for method, path in (("GET", "/"), ("GET", "/page.css"), ("GET", "/x"), ("DELETE", "/")):
        _, reply = sent(server, method, path)
        head = reply.partition(b"\r\n\r\n")[0] + b"\r\n"
        assert CSP in head
        for line in (
            b"X-Content-Type-Options: nosniff",
            b"Referrer-Policy: same-origin",
            b"Cross-Origin-Resource-Policy: same-origin",
            b"Cache-Control: no-store",
        ):
            assert head.count(line + b"\r\n") == 1
        assert b"Python" not in head


def test_time_of_a_question_is_bounded():
    with Server(0, 0.01) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(3):  # each frees its slot
            status, reply = sent(server, "POST", "/epsilon", body=urlencode(RUN))
            assert status == 503
            assert b"No answer after 0.01 s." in reply
        server.shutdown()


def test_questions_at_once_are_bounded(server):
    with server.free, server.free:
        status, reply = sent(server, "POST", "/epsilon", body=urlencode(RUN))
    assert status == 503
    assert b"2 questions are being computed." in reply


def test_text_is_escaped(server):
    evil = "\"'><script>alert(1)</script>"
    body = urlencode({"delta": evil, "noise_multiplier": "2"})
    status, reply = sent(server, "POST", "/epsilon", body=body)
    assert status == 400
    assert b"<script" not in reply
    assert html.escape(evil).encode() in reply.replace(b"&#34;", b"&quot;").replace(
        b"&#39;", b"&#x27;"
    )
    plan = PLAN.replace('"sum"', '"<script>"')
    status, reply = sent(server, "POST", "/account", body=urlencode({"plan": plan}))
    assert status == 200
    assert b"<script" not in reply
    assert b"&lt;script&gt;" in reply


def cells(text):
    lines = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', text)
    return [(head, *re.findall("<td>(.*?)</td>", rest)) for head, rest in lines]


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("sigma", {"epsilon": "2", "delta": "1e-6", "sampling_probability": "0.01", "steps": "50"}),
        ("sigma", {"bayes_risk": "0.4", "prior": "0.5"}),
        ("epsilon", RUN | {"relation": "replace-special", "notion": "rdp"}),
        ("epsilon", SHUFFLED | {"relation": "replace-one"}),
        ("delta", {"sigma": "1.5", "epsilon": "0", "steps": "2"}),
        ("steps", {"noise_multiplier": "9", "epsilon": "1", "delta": "1e-5"}),
        ("sampling-probability", {"noise_multiplier": "2", "epsilon": "1", "delta": "1e-5"}),
        ("convert", {"rho": "0.1", "delta": "1e-5", "conversion": "classic"}),
        ("explain", RUN),
    ],
)
def test_answers_are_those_of_python(name, texts):
    values = {key: text for key, text in texts.items() if not re.match(r"[\d.]", text)}
    values |= {key: eval(text) for key, text in texts.items() if key not in values}
    record = getattr(answers, name.replace("-", "_"))(values)
    code, shown = answer(name, texts)
    assert code == 0
    assert cells(shown) == output.rows(record)
    assert html.escape(record.get("statement", "")).replace("&#x27;", "&#39;") in shown
    words = re.search("<code>dpcalib (.*?)</code>", shown)[1].split()
    done = CliRunner().invoke(FORMS[name], [*words[1:], "--json"])
    assert output.rows(json.loads(done.stdout)) == cells(shown)


@pytest.mark.parametrize(
    ("name", "texts", "field", "message"),
    [
        ("epsilon", RUN | {"delta": "5"}, "delta", "Expected delta=5 to be > 0 and < 1."),
        ("epsilon", RUN | {"delta": ""}, "delta", "Pass --delta: "),
        ("epsilon", RUN | {"sigma": "2"}, "noise_multiplier", "Expected exactly one of"),
        ("epsilon", RUN | {"steps": "many"}, "steps", "steps='many' is not a number."),
        ("epsilon", RUN | {"delta": "nan"}, "delta", "Expected delta=nan"),
        ("epsilon", RUN | {"steps": "9" * 4000}, "steps", "Expected steps=9999"),
        ("epsilon", RUN | {"relation": "x"}, "relation", "Expected relation='x'"),
        ("sigma", {"epsilon": "1e-5", "delta": "1"}, "epsilon", "epsilon=1e-05 and delta=1"),
        ("steps", RUN | {"epsilon": "0.1", "steps": ""}, "epsilon", "Expected epsilon=0.1 at"),
        ("account", {"plan": "x ="}, "plan", "Invalid value (at end of document)"),
        ("account", {"delta": ""}, "plan", "Expected the plan to have the key"),
        ("account", {"plan": PLAN.replace("1e-6", "2")}, "plan", "Expected delta=2"),
        ("account", {"plan": PLAN, "delta": "3"}, "delta", "Expected delta=3"),
        ("account", {"plan": PLAN.replace("2.5", "-1")}, "plan", "part 'sum': Expected noise"),
        ("epsilon", RUN | {"sampler": "shuffle"}, "sampling_probability", "With these options"),
        ("epsilon", SHUFFLED, "relation", "No proven bound for Epochs"),
        ("account", {"plan": "[" * 9000}, "plan", ""),
    ],
)
def test_an_error_is_beside_its_field(name, texts, field, message):
    code, text = answer(name, {name: text for name, text in texts.items() if text})
    text = html.unescape(text)
    assert code == 2
    assert text.count(' class="error"') == 1
    assert f'<p class="error" id="{field}-error">{message}' in text
    assert re.search(
        f'id="{field}"[^>]*aria-describedby="{field}-error {field}-hint"[^>]*autofocus', text
    )
    assert "Traceback" not in text


def test_pages_in_a_browser_without_a_mouse(browser, nameless, server):
    origin = f"http://{server.hosts[0]}"
    opened = browser.new_page()
    requests, problems = [], []
    opened.on("request", lambda request: requests.append(request.url))
    opened.on("console", lambda message: problems.append(message.text))
    for name in FORMS:
        opened.goto(f"{origin}/{name}")
        assert opened.evaluate(nameless) == []
        assert opened.title() == f"dpcalib {name}"
    opened.goto(f"{origin}/epsilon")
    opened.wait_for_selector("#noise_multiplier:focus")
    for text in ("1.1", "", "7", "1/100", "100"):  # noise multiplier, sigma, delta, q, steps
        opened.keyboard.type(text)
        opened.keyboard.press("Tab")
    opened.keyboard.press("Shift+Tab")
    with opened.expect_navigation():
        opened.keyboard.press("Enter")
    opened.wait_for_selector("#delta:focus")
    described = opened.locator("#delta").evaluate(
        "(one) => one.ariaDescribedByElements.map((each) => each.textContent.trim()).join(' ')"
    )
    assert described.startswith("Expected delta=7 to be > 0 and < 1.")
    assert opened.title() == "Error: dpcalib epsilon"
    opened.keyboard.press("Control+a")
    opened.keyboard.type("1e-5")
    with opened.expect_navigation():
        opened.keyboard.press("Enter")
    record = answers.epsilon(
        {"noise_multiplier": 1.1, "delta": 1e-5, "sampling_probability": 0.01, "steps": 100}
    )
    assert opened.evaluate("document.activeElement.textContent") == ": ".join(
        output.rows(record)[0]
    )
    assert opened.locator("#steps").input_value() == "100"
    assert all(url.startswith(f"{origin}/") for url in requests)
    assert not [text for text in problems if "400" not in text]
    opened.close()


CONTRAST = """() => {
    const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = (color) => color.match(/[0-9.]+/g).slice(0, 3).map(Number).map(channel)
        .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
    const back = light(getComputedStyle(document.body).backgroundColor);
    const all = [...document.querySelectorAll("h1, p, code, a, label, legend, input, select")];
    return Math.min(...all.map((one) => light(getComputedStyle(one).color)).map(
        (v) => (Math.max(v, back) + 0.05) / (Math.min(v, back) + 0.05)));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrasts_and_fits(browser, server, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 320, "height": 600})
    opened = context.new_page()
    opened.goto(f"http://{server.hosts[1]}/epsilon")
    with opened.expect_navigation():
        opened.click("button")
    assert opened.locator(".error").count() == 1
    assert opened.evaluate(CONTRAST) >= 4.5
    assert opened.evaluate("document.documentElement.scrollWidth") <= 320
    context.close()


def test_requests_of_other_sites_are_refused(browser, never_asked):
    opened = browser.new_page()
    url = f"http://{never_asked.hosts[0]}/epsilon"
    ask = """([url, body]) => fetch(url, {
        method: "POST", mode: "no-cors", body,
        headers: {"Content-Type": "application/x-www-form-urlencoded"},
    }).then(() => "sent", () => "failed")"""
    opened.set_content("another site")
    assert opened.evaluate(ask, [url, urlencode(RUN)]) in {"sent", "failed"}
    opened.set_content(f"<iframe src='{url}'></iframe>")
    opened.set_content(f"<form method=post action='{url}'><input name=delta value=1></form>")
    with opened.expect_navigation():
        opened.evaluate("document.forms[0].submit()")
    assert "directly in a browser." in opened.content()
    opened.close()


def test_the_command_starts_and_stops():
    # a shell starts background jobs with interrupts ignored, and so their children
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from privacy.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        port = int(re.search(r"http://127\.0\.0\.1:(\d+) ", process.stdout.readline())[1])
        taken = CliRunner().invoke(serve, ["--port", str(port)])
        assert taken.exit_code == 1
        assert taken.stderr == (
            f"Error: Port {port} cannot be used (Address already in use). Pass another --port.\n"
        )
        process.send_signal(signal.SIGINT)
        _, problems = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in problems

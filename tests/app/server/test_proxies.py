"""The page behind a real nginx and a real Caddy, with the configurations of docs/proxies."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser

from tests.app.server.test_leaving import flood

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (shutil.which("nginx") and shutil.which("caddy")), reason="needs nginx and caddy"),
]
DOCS = Path(__file__).parents[3] / "docs" / "proxies"
NAME = "lens.example.org"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    make = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={NAME} -keyout lens.key -out lens.crt"
    subprocess.run(
        [*make.split(), "-addext", f"subjectAltName=DNS:{NAME}"], cwd=folder, check=True, capture_output=True
    )
    return folder


@contextmanager
def running(command: list[str], port: int, log: Path) -> Iterator[None]:
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < deadline, log.read_text()
                    time.sleep(0.1)
            yield
        finally:
            process.terminate()


CHANGES = {
    "nginx": ("", ""),
    "nginx that strips the path": ("proxy_pass http://127.0.0.1:7860;", "proxy_pass http://127.0.0.1:7860/;"),
    "nginx that names no scheme": ("proxy_set_header X-Forwarded-Proto $scheme;", ""),
    "nginx behind another proxy": ("X-Forwarded-Proto $scheme", 'X-Forwarded-Proto "https, http"'),
}


@contextmanager
def nginx(page: Any, folder: Path, certificate: Path, kind: str) -> Iterator[str]:
    """The address of the page behind nginx."""
    port, text = free_port(), (DOCS / "nginx.conf").read_text()
    head, location, rest = text.partition("    location /lens/ {")
    text = head + location + rest.replace(*CHANGES[kind], 1)
    text = text.replace("/etc/ssl", str(certificate)).replace("listen 443", f"listen 127.0.0.1:{port}")
    text = text.replace("127.0.0.1:7860", urlsplit(page.url).netloc)
    places = "".join(f"{name}_temp_path {folder}/{name};" for name in "client_body proxy fastcgi uwsgi scgi".split())
    whole = f"daemon off; pid {folder}/pid; error_log stderr; events {{}} http {{ access_log off; {places}\n{text}}}"
    (folder / "nginx.conf").write_text(whole)
    with running(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], port, folder / "log"):
        yield f"https://{NAME}:{port}/lens/"


@contextmanager
def caddy(page: Any, folder: Path, certificate: Path, kind: str) -> Iterator[str]:
    """The address of the page behind Caddy."""
    port, text = free_port(), (DOCS / "Caddyfile").read_text()
    text = text.replace("\n{\n", "\n{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n", 1)
    tls = f"tls {certificate}/lens.crt {certificate}/lens.key"
    text = text.replace(f"\n{NAME} {{", f"\n{NAME}:{port} {{\n\t{tls}")
    (folder / "Caddyfile").write_text(text.replace("127.0.0.1:7860", urlsplit(page.url).netloc))
    with running(["caddy", "run", "--config", str(folder / "Caddyfile")], port, folder / "log"):
        yield f"https://{NAME}:{port}/"


@pytest.fixture(scope="module")
def by_proxy(serve: Callable[..., Any]) -> Callable[..., Any]:
    """The page for a proxy on this machine, with environment variables."""

    def start(**variables: str) -> Any:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in {"FORWARDED_ALLOW_IPS": "127.0.0.1", **variables}.items():
                environment.setenv(name, value)
            return serve("--allowed-host", NAME)

    return start


@pytest.fixture(scope="module")
def below_a_path(by_proxy: Callable[..., Any]) -> Any:
    return by_proxy(GRADIO_ROOT_PATH="/lens")


@pytest.fixture(scope="module")
def by_name(by_proxy: Callable[..., Any]) -> Any:
    return by_proxy()


@pytest.mark.parametrize("kind", [*CHANGES, "caddy"])
def test_a_run_is_read_behind_a_proxy(
    kind: str, request: pytest.FixtureRequest, chromium: Browser, certificate: Path, tmp_path: Path
) -> None:
    page = request.getfixturevalue("by_name" if kind == "caddy" else "below_a_path")
    start_proxy = caddy if kind == "caddy" else nginx
    with (
        start_proxy(page, tmp_path, certificate, kind) as url,
        chromium.new_context(ignore_https_errors=True, reduced_motion="reduce") as context,
    ):
        tab = context.new_page()
        complaints: list[str] = []
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.goto(url + "?pace=0")
        tab.wait_for_selector("[data-state=idle]", timeout=60_000)
        tab.click("#run")
        tab.wait_for_selector("[data-state=done]", timeout=60_000)
        assert complaints == []


def test_a_path_without_its_slash_is_sent_on(below_a_path: Any, certificate: Path, tmp_path: Path) -> None:
    with nginx(below_a_path, tmp_path, certificate, "nginx") as url:
        port = urlsplit(url).port
        answer = httpx.get(f"https://127.0.0.1:{port}/lens", headers={"Host": f"{NAME}:{port}"}, verify=False)
        assert answer.status_code == 301
        assert answer.headers["location"].endswith("/lens/")


def test_guesses_of_passwords_are_slowed_down(below_a_path: Any, certificate: Path, tmp_path: Path) -> None:
    with nginx(below_a_path, tmp_path, certificate, "nginx") as url:
        port = urlsplit(url).port
        with httpx.Client(verify=False, headers={"Host": NAME}) as client:
            answers = [client.post(f"https://127.0.0.1:{port}/lens/login").status_code for _ in range(20)]
    assert answers.count(503) > 10


def test_a_trusted_proxy_names_the_addresses(by_name: Any) -> None:
    assert set(flood(by_name)) == {200}

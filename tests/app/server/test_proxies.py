"""The page behind a real nginx and a real Caddy, with the configurations of docs/proxies and a certificate of our own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

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


@contextmanager
def nginx(page: Any, folder: Path, certificate: Path) -> Iterator[str]:
    """The address of the page behind nginx."""
    port, text = free_port(), (DOCS / "nginx.conf").read_text()
    text = text.replace("/etc/ssl", str(certificate)).replace("listen 443", f"listen 127.0.0.1:{port}")
    text = text.replace("127.0.0.1:7860", urlsplit(page.url).netloc)
    places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in "client_body proxy fastcgi uwsgi scgi".split())
    whole = f"daemon off; pid {folder}/pid; error_log stderr; events {{}} http {{ access_log off; {places}\n{text}}}"
    (folder / "nginx.conf").write_text(whole)
    with running(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], port, folder / "log"):
        yield f"https://{NAME}:{port}/lens/"


@contextmanager
def caddy(page: Any, folder: Path, certificate: Path) -> Iterator[str]:
    """The address of the page behind Caddy."""
    port, text = free_port(), (DOCS / "Caddyfile").read_text()
    text = text.replace("\n{\n", "\n{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n", 1)
    tls = f"tls {certificate}/lens.crt {certificate}/lens.key"
    text = text.replace(f"\n{NAME} {{", f"\n{NAME}:{port} {{\n\t{tls}")
    (folder / "Caddyfile").write_text(text.replace("127.0.0.1:7860", urlsplit(page.url).netloc))
    with running(["caddy", "run", "--config", str(folder / "Caddyfile")], port, folder / "log"):
        yield f"https://{NAME}:{port}/"


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxied(
    request: pytest.FixtureRequest,
    serve: Callable[..., Any],
    certificate: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Any, str]]:
    """The page itself, and its address behind a proxy."""
    place = ("--root-path", "/lens") if request.param == "nginx" else ()
    page = serve("--allowed-host", NAME, "--trusted-proxy", "127.0.0.1", *place)
    start_proxy = nginx if request.param == "nginx" else caddy
    with start_proxy(page, tmp_path_factory.mktemp(request.param), certificate) as url:
        yield page, url


def test_a_run_is_read_behind_a_proxy(proxied: tuple[Any, str], chromium: Browser) -> None:
    page, url = proxied
    options = {"ignore_https_errors": True, "reduced_motion": "reduce"}
    resolve = [f"--host-resolver-rules=MAP {NAME} 127.0.0.1", "--no-sandbox"]
    with chromium.browser_type.launch(executable_path=_executable(), args=resolve) as browser:
        tab = browser.new_context(**options).new_page()
        complaints: list[str] = []
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.goto(url)
        tab.wait_for_selector("[data-state=idle]", timeout=60_000)
        tab.click("#run")
        tab.wait_for_selector("[data-state=done]", timeout=60_000)
        assert complaints == []


def _executable() -> str | None:
    return next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)

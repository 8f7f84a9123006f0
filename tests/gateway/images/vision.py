"""A model that accepts images behind a gateway, and a server of images on this machine."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import httpx

from tests.gateway.stack import START_SECONDS
from tests.models import vision_model
from tests.support.servers import gateway_process
from tests.support.servers.loopback import Handler, running
from tests.support.servers.virtual_keys import key_file
from toolgate_proxy.stack.processes import Child, free_port

MODEL = "tiny-vision"
TEAMS = ("blue", "green")
MAX_IMAGES = 4
"""Images in one prompt."""
MAX_PIXELS = 1_000_000
MAX_BYTES = 200_000
"""Maximum size of one image at the gateway, in bytes."""
FLAGS = ("--max-num-seqs", "4", "--kv-cache-memory-bytes", str(128 * 2**20))


def loosen_images() -> None:
    """Replace the check of the gateway that forbids images from this machine, and shorten them."""
    from toolgate_proxy.chat.request import images

    images.is_public = lambda address: True
    images.MAX_BYTES = MAX_BYTES


@contextmanager
def vision_gateway(logs: Path) -> Iterator[tuple[gateway_process.Gateway, dict[str, str]]]:
    """Yields the gateway, and the key of each team in TEAMS."""
    url, key = f"http://127.0.0.1:{(port := free_port())}", uuid.uuid4().hex
    command = [sys.executable, "-m", "toolgate_backend.launch", str(vision_model())]
    command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", MODEL, *FLAGS]
    command += ["--limit-mm-per-prompt", f'{{"image": {MAX_IMAGES}}}']
    variables = {
        "VLLM_API_KEY": key,
        "VLLM_MAX_IMAGE_PIXELS": str(MAX_PIXELS),
        "TOOLGATE_ADAPTER": os.environ.get("TOOLGATE_ADAPTER") or "auto",
    }
    keys = key_file(logs / "keys.yaml", **{team: team for team in TEAMS})
    backend = Child("backend", command, variables, logs / "backend.log")
    try:
        _wait(backend, f"{url}/v1/toolgate/info", key)
        with gateway_process.serving(
            ["--model", f"{MODEL}={MODEL}@{url}"],
            url,
            logs / "gateway.log",
            before=loosen_images,
            TOOLGATE_BACKEND_KEY=key,
            TOOLGATE_KEYS_FILE=str(logs / "keys.yaml"),
        ) as gateway:
            yield gateway, keys
        backend.check()
    finally:
        backend.stop()


def _wait(backend: Child, url: str, key: str) -> None:
    give_up = time.monotonic() + START_SECONDS
    with httpx.Client(headers={"authorization": f"Bearer {key}"}, trust_env=False) as http:
        while time.monotonic() < give_up:
            backend.check()
            try:
                if http.get(url).is_success:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.2)
    raise AssertionError(f"The backend did not start: {backend.log.read_text()[-4000:]}")


class ImageServer(ThreadingHTTPServer):
    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.asked: list[str] = []

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class _Handler(Handler):
    server: ImageServer

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        self.server.asked.append(name)
        data = self.server.files.get(name)
        self.answer(404 if data is None else 200, data or b"", "application/octet-stream")


@contextmanager
def image_server(files: Mapping[str, bytes]) -> Iterator[ImageServer]:
    server = ImageServer(files)
    with running(server):
        yield server

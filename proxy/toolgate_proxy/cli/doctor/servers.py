"""Backends and the gateway, asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import typer
from pydantic import SecretStr, ValidationError

from toolgate_core.wire import FORMAT, Info

from ...settings import Settings
from ..master_key import find_master_key
from .finding import Finding

TIMEOUT = 5.0


def backends(urls: Sequence[str] | None, settings: Settings) -> Iterator[Finding]:
    configured = "backend_url" in settings.model_fields_set
    for url in urls or [settings.backend_url]:
        finding = _backend(url.rstrip("/"), settings.backend_key)
        if (
            finding.level == "problem"
            and finding.text.endswith("no answer")
            and not (urls or configured)
        ):
            finding = Finding(finding.topic, "none running, TOOLGATE_BACKEND_URL not set", "note")
        yield finding


def _backend(url: str, key: SecretStr | None) -> Finding:
    topic = f"backend {url}"
    status, body = _get(f"{url}/v1/toolgate/info", key)
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
    url = url.rstrip("/").removesuffix("/v1")
    topic = f"gateway {url}"
    try:
        key = find_master_key(url)
    except typer.BadParameter:  # reported as the problem of the master key
        key = None
    if key is None:
        status, _ = _get(f"{url}/health/liveliness", None)
        if status == 200:
            return Finding(topic, "running; set TOOLGATE_MASTER_KEY to see its models")
        return Finding(topic, _no_answer(status), "note")
    status, body = _get(f"{url}/toolgate/status", key)
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


def _get(url: str, key: SecretStr | None) -> tuple[int, object]:
    """The status, 0 without a response, and the JSON body."""
    if find_spec("httpx") is None:
        return 0, None
    import httpx

    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    try:
        response = httpx.get(url, headers=headers, timeout=TIMEOUT, trust_env=False)
        return response.status_code, response.json()
    except httpx.HTTPError:
        return 0, None
    except ValueError:
        return response.status_code, None

"""The models that a gateway serves, for a warning about a key for a model that nobody serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.util import find_spec

from ..master_key import find_master_key

TIMEOUT = 3.0
SPECIAL = ("all-proxy-models", "all-team-models", "no-default-models")
"""LiteLLM's names for lists of models."""


def warnings(models: Sequence[str], url: str) -> Iterator[str]:
    """One sentence for each model that the gateway does not serve. Nothing if it can't be asked:
    keys can be created before the gateway runs."""
    asked = [model for model in models if model not in SPECIAL]
    served = _served(url) if asked else None
    if served is None:
        return
    for model in asked:
        if any(fnmatchcase(model, name) or fnmatchcase(name, model) for name in served):
            continue
        meant = get_close_matches(model, served, n=1)
        hint = f" Did you mean {meant[0]!r}?" if meant else ""
        yield (
            f"Warning: the gateway at {url} serves no model {model!r}.{hint} It serves: "
            f"{', '.join(served) or 'none'}."
        )


def _served(url: str) -> list[str] | None:
    """Names for clients, among them those of groups. None if the gateway can't be asked."""
    key = find_master_key(url)
    if key is None or find_spec("httpx") is None:
        return None
    import httpx

    try:
        response = httpx.get(
            f"{url.rstrip('/').removesuffix('/v1')}/v1/models",
            params={"include_model_access_groups": "true"},
            headers={"Authorization": f"Bearer {key.get_secret_value()}"},
            timeout=TIMEOUT,
            trust_env=False,
        )
        response.raise_for_status()
        return [str(model["id"]) for model in response.json()["data"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None

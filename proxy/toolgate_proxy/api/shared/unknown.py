"""Errors for parameters that no row defines: what to send instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from toolgate_core.errors import UnsupportedParameter

_SET_AT_BACKEND = "The operator sets it at the backend."
_PREFIX_CACHE = "vLLM manages the prefix cache."
_ONE_GATEWAY = "The gateway's operator decides which deployments serve a model."

FOREIGN: Mapping[str, str] = {
    # Ollama
    "num_ctx": f"The context length is that of the backend (`--max-model-len`). {_SET_AT_BACKEND}",
    "num_predict": "Use `max_tokens`.",
    "repeat_penalty": "Use `repetition_penalty`.",
    "repeat_last_n": "`repetition_penalty` counts all tokens.",
    "think": 'Use `reasoning_effort`; "none" turns the reasoning off.',
    "keep_alive": "The model stays loaded.",
    "options": "Send its members as parameters of the request.",
    "format": "Use `response_format`.",
    "mirostat": "vLLM does not support this sampler. Use `top_p` or `min_p`.",
    # llama.cpp
    "n_predict": "Use `max_tokens`.",
    "cache_prompt": _PREFIX_CACHE,
    "grammar": "Use `response_format`, or a custom tool with a grammar.",
    "typical_p": "vLLM does not support this sampler. Use `top_p` or `min_p`.",
    "tfs_z": "vLLM does not support this sampler. Use `top_p` or `min_p`.",
    "top_a": "vLLM does not support this sampler. Use `top_p` or `min_p`.",
    # Text Generation Inference and transformers
    "max_new_tokens": "Use `max_tokens`.",
    "do_sample": "`temperature` 0 turns sampling off.",
    # OpenRouter
    "provider": _ONE_GATEWAY,
    "models": _ONE_GATEWAY,
    "route": _ONE_GATEWAY,
    "transforms": "Prompts are never shortened without `truncate_prompt_tokens`.",
    "plugins": "Plug-ins of other gateways are not supported.",
    # Other vendors
    "random_seed": "Use `seed`.",
    "safe_prompt": "Write it into a system message.",
    "thinking": 'Use `reasoning_effort`; "none" turns the reasoning off.',
    "cached_content": _PREFIX_CACHE,
}
"""Parameters of other servers that clients send often."""


MAX_LISTED = 20
"""Number of dropped parameters that the header lists."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def unknown(name: str, known: Collection[str] = ()) -> UnsupportedParameter:
    """`known`: the names of the API's parameters."""
    shown = name.encode(errors="replace").decode()  # JSON can't hold half a surrogate pair
    return UnsupportedParameter(f"Unknown parameter {shown!r}. {_advice(name, known)}", param=shown)


def without_unknown(
    body: Mapping[str, Any], known: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """The body without unknown parameters, and their names as far as a header can list them."""
    kept = {name: value for name, value in body.items() if name in known}
    dropped = [name for name, value in body.items() if name not in known and value is not None]
    shown = [name if _PLAIN.fullmatch(name) else "?" for name in dropped[:MAX_LISTED]]
    return kept, [*shown, *["..."] * (len(dropped) > MAX_LISTED)]


def _advice(name: str, known: Collection[str]) -> str:
    if name in FOREIGN:
        return f"Remove it from the request. {FOREIGN[name]}"
    meant = get_close_matches(name[:64], known, n=1, cutoff=0.75)
    if meant:
        return f"Did you mean {meant[0]!r}? Otherwise, remove it from the request."
    return "Remove it from the request."

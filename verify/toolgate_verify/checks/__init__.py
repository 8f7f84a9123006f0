"""The checks. Each module registers those of one subject."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "text",
    "usage",
    "calls",
    "several",
    "choice",
    "cut_calls",
    "schemas",
    "stops",
    "formats",
    "reasoning",
    "histories",
    "errors.common",
    "errors.own",
    "load",
    "chat.chunks",
    "chat.choices",
    "logprobs",
    "responses.body",
    "responses.events",
    "responses.state",
    "messages.body",
    "messages.events",
)


def register_all() -> None:
    """Imports the modules, which registers their checks once."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")

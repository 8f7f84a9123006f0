"""The clients that `toolgate launch` starts: what each needs to use the gateway.

Everything is given in the environment and on the command line of one run. No file of the user is
changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

KEY_VARIABLE = "TOOLGATE_API_KEY"


@dataclass(frozen=True)
class Gateway:
    url: str
    """Without a path."""
    model: str


def _nothing(_: Gateway) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class LaunchedClient:
    command: str
    install: str
    """The command that installs it."""
    key_variables: tuple[str, ...]
    """Environment variables that get the API key."""
    variables: Callable[[Gateway], Mapping[str, str]] = field(default=lambda _: {})
    """Further environment variables."""
    arguments: Callable[[Gateway], tuple[str, ...]] = _nothing
    """Arguments before those of the user."""
    removed: tuple[str, ...] = ()
    """Environment variables that would send requests elsewhere."""


def _claude(gateway: Gateway) -> Mapping[str, str]:
    models = ("ANTHROPIC_MODEL", *(f"ANTHROPIC_DEFAULT_{kind}_MODEL" for kind in MODEL_KINDS))
    return {
        "ANTHROPIC_BASE_URL": gateway.url,
        **dict.fromkeys(models, gateway.model),
        "CLAUDE_CODE_SUBAGENT_MODEL": gateway.model,
        # The gateway refuses tools that are loaded later, and Claude Code would ask again.
        "ENABLE_TOOL_SEARCH": "false",
        # Telemetry, updates and error reports go to Anthropic, not to the gateway.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


MODEL_KINDS = ("OPUS", "SONNET", "HAIKU")
"""Claude Code chooses one of three models for a task. All are the gateway's."""


def _codex(gateway: Gateway) -> tuple[str, ...]:
    provider = {
        "name": "Toolgate",
        "base_url": f"{gateway.url}/v1",
        "env_key": KEY_VARIABLE,
        "wire_api": "responses",
    }
    settings = {"model": gateway.model, "model_provider": "toolgate"}
    settings |= {f"model_providers.toolgate.{name}": value for name, value in provider.items()}
    return tuple(
        part for name, value in settings.items() for part in ("-c", f"{name}={json.dumps(value)}")
    )


def _opencode(gateway: Gateway) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Toolgate",
        "options": {"baseURL": f"{gateway.url}/v1", "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        "models": {gateway.model: {"name": gateway.model}},
    }
    model = f"toolgate/{gateway.model}"
    content = {"model": model, "small_model": model, "provider": {"toolgate": provider}}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(content)}


def _qwen(gateway: Gateway) -> Mapping[str, str]:
    return {"OPENAI_BASE_URL": f"{gateway.url}/v1", "OPENAI_MODEL": gateway.model}


CLIENTS: Mapping[str, LaunchedClient] = {
    "claude": LaunchedClient(
        command="claude",
        install="npm install -g @anthropic-ai/claude-code",
        key_variables=("ANTHROPIC_AUTH_TOKEN",),
        variables=_claude,
        # Claude Code prefers them to the token, or sends its requests to a cloud.
        removed=("ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
    ),
    "codex": LaunchedClient(
        command="codex",
        install="npm install -g @openai/codex",
        key_variables=(KEY_VARIABLE,),
        arguments=_codex,
    ),
    "opencode": LaunchedClient(
        command="opencode",
        install="npm install -g opencode-ai",
        key_variables=(KEY_VARIABLE,),
        variables=_opencode,
    ),
    "qwen": LaunchedClient(
        command="qwen",
        install="npm install -g @qwen-code/qwen-code",
        key_variables=("OPENAI_API_KEY",),
        variables=_qwen,
        arguments=lambda _: ("--auth-type", "openai"),
    ),
}
"""By name on the command line."""

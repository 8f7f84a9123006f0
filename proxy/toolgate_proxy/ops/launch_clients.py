"""The coding agents that `toolgate launch` runs, and how each is given the gateway, the model and
its context length.

Codex reads a catalogue of models (`model_catalog_json`). Without an entry, it expects a context of
272,000 tokens, compacts too late, does not offer `apply_patch`, and sends all tools of MCP servers
instead of a search for them. With one, its instructions are those of the entry instead of 17,000
characters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .launch_target import Target

EFFORTS = {
    "low": "Short reasoning",
    "medium": "Reasoning of medium length",
    "high": "Long reasoning",
}
INSTRUCTIONS = """\
You are a coding agent in the terminal of a user, and share their workspace. Work on the task \
until it is done: read, change and run what it takes, and do not stop at a plan.

- Read files before you change them. `rg` and `rg --files` are fast. Run independent commands in \
parallel.
- Change files with `apply_patch`. Keep to the style of the code around, change no more than the \
task needs, and fix causes rather than symptoms. Commit only if you are asked to.
- Follow the files `AGENTS.md`: the rules of the one nearest to a file count for it. The user's \
messages come first.
- The working tree may have changes of the user. Never revert what you did not change yourself.
- Check your work with the tests and tools of the project, the narrowest first. If something can't \
be checked, say so.
- Respect the sandbox and the approval mode. Ask before anything that can't be undone.
- Before longer work, say in a sentence what you do next. At the end, state briefly what changed, \
where (`path:line`), and what is left. Write plain text with short lists.
"""
"""Codex sends none of its own to a model of a catalogue."""
MAX_RESULT = 10_000
"""Most tokens of the result of a call, as of OpenAI's models."""


def catalog(target: Target) -> dict[str, Any]:
    """Return a catalogue of one model, whose window must be known. Codex compacts when three
    quarters of the window are used. The rest is for a response and the result of a call."""
    window = target.window
    assert window is not None
    entry = {
        "slug": target.model,
        "display_name": target.model,
        "description": "A model of the gateway.",
        "context_window": window.tokens,
        "max_context_window": window.tokens,
        "auto_compact_token_limit": window.tokens * 3 // 4,
        "truncation_policy": {"mode": "tokens", "limit": min(MAX_RESULT, window.tokens // 8)},
        "apply_patch_tool_type": "freeform",
        "shell_type": "default",
        "supports_parallel_tool_calls": True,
        "supports_search_tool": True,
        "experimental_supported_tools": [],
        "supported_reasoning_levels": [
            {"effort": effort, "description": description}
            for effort, description in EFFORTS.items()
        ],
        "supports_reasoning_summaries": True,
        "support_verbosity": False,
        "visibility": "list",
        "supported_in_api": True,
        "priority": 0,
        "base_instructions": INSTRUCTIONS,
    }
    return {"models": [entry]}


KEY_VARIABLE = "TOOLGATE_API_KEY"
MODEL_KINDS = ("OPUS", "SONNET", "HAIKU")
"""Claude Code chooses one of three models for a task. All are the gateway's."""
MAX_RESERVE = 20_000
"""Most tokens that OpenCode reserves for a response."""


def _nothing(_: Target) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class LaunchedClient:
    command: str
    install: str
    """The command that installs it."""
    key_variables: tuple[str, ...]
    """Environment variables that get the API key."""
    variables: Callable[[Target], Mapping[str, str]] = field(default=lambda _: {})
    """Further environment variables."""
    arguments: Callable[[Target], tuple[str, ...]] = _nothing
    """Arguments before those of the user."""
    removed: tuple[str, ...] = ()
    """Environment variables that would send requests elsewhere."""
    file: Callable[[Target], object] | None = None
    """Content of the file at `Target.file`, as JSON, for what neither a variable nor an argument
    can set: the context length."""


def _claude(target: Target) -> Mapping[str, str]:
    models = ("ANTHROPIC_MODEL", *(f"ANTHROPIC_DEFAULT_{kind}_MODEL" for kind in MODEL_KINDS))
    variables = {
        "ANTHROPIC_BASE_URL": target.url,
        **dict.fromkeys(models, target.model),
        "CLAUDE_CODE_SUBAGENT_MODEL": target.model,
        # Telemetry, updates and error reports go to Anthropic, not to the gateway.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    if (window := target.window) is not None:
        # Of a model that it does not know, Claude Code expects more, and never compacts.
        variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(window.tokens)
        variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(window.tokens)
        # It asks for 32,000 tokens, which leave no room for the prompt of a small context.
        variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(window.output)
    return variables


def _codex(target: Target) -> tuple[str, ...]:
    provider = {
        "name": "Toolgate",
        "base_url": f"{target.url}/v1",
        "env_key": KEY_VARIABLE,
        "wire_api": "responses",
    }
    settings = {"model": target.model, "model_provider": "toolgate"}
    settings |= {f"model_providers.toolgate.{name}": value for name, value in provider.items()}
    if target.window is not None:
        settings["model_catalog_json"] = str(target.file("codex"))
    return tuple(
        part for name, value in settings.items() for part in ("-c", f"{name}={json.dumps(value)}")
    )


def _opencode(target: Target) -> Mapping[str, str]:
    model: dict[str, object] = {"name": target.model}
    if (window := target.window) is not None:
        # It compacts when the tokens left of `input` are no more than `output`. Without `input` it
        # leaves no room for the result of a call, and ends at the error for a long prompt.
        limit = window.tokens * 3 // 4 + min(MAX_RESERVE, window.output)
        model["limit"] = {"context": window.tokens, "input": limit, "output": window.output}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Toolgate",
        "options": {"baseURL": f"{target.url}/v1", "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        "models": {target.model: model},
    }
    chosen = f"toolgate/{target.model}"
    content = {"model": chosen, "small_model": chosen, "provider": {"toolgate": provider}}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(content)}


def _qwen(target: Target) -> Mapping[str, str]:
    variables = {"OPENAI_BASE_URL": f"{target.url}/v1", "OPENAI_MODEL": target.model}
    if target.window is not None:
        variables["QWEN_CODE_SYSTEM_DEFAULTS_PATH"] = str(target.file("qwen"))
    return variables


def _qwen_settings(target: Target) -> object:
    assert target.window is not None
    return {"model": {"generationConfig": {"contextWindowSize": target.window.tokens}}}


def _copilot(target: Target) -> Mapping[str, str]:
    variables = {"COPILOT_PROVIDER_BASE_URL": f"{target.url}/v1", "COPILOT_MODEL": target.model}
    if (window := target.window) is not None:
        prompt = window.tokens - window.output
        variables["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"] = str(prompt)
        variables["COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"] = str(window.output)
    return variables


def _aider(target: Target) -> tuple[str, ...]:
    arguments = ("--model", f"openai/{target.model}")
    if target.window is None:
        return arguments
    return (*arguments, "--model-metadata-file", str(target.file("aider")))


def _aider_metadata(target: Target) -> object:
    assert target.window is not None
    metadata = {
        "max_input_tokens": target.window.tokens,
        "max_output_tokens": target.window.output,
        "max_tokens": target.window.output,
        "litellm_provider": "openai",
        "mode": "chat",
    }
    return {f"openai/{target.model}": metadata}


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
        file=catalog,
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
        file=_qwen_settings,
    ),
    "copilot": LaunchedClient(
        command="copilot",
        install="npm install -g @github/copilot",
        key_variables=("COPILOT_PROVIDER_API_KEY",),
        variables=_copilot,
    ),
    "aider": LaunchedClient(
        command="aider",
        install="python -m pip install aider-chat",
        key_variables=("OPENAI_API_KEY",),
        variables=lambda target: {"OPENAI_API_BASE": f"{target.url}/v1"},
        arguments=_aider,
        file=_aider_metadata,
    ),
}
"""By name on the command line."""

"""The chat request of a parsed body: the fields that all APIs fill in the same way."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest, ToolChoice
from toolgate_core.text_size import IMAGE
from toolgate_core.toolset import Toolset

from ...pdf import PDF
from .content_format import check_plain_only
from .history import History
from .parameter import ParsedParameters
from .sampling import make_sampling
from .template import reasoning_budget, reasoning_mode, template_kwargs
from .tools import HostedTools

Salt = Callable[[str | None], str | None]
"""Returns the salt of a request in the backend's prefix cache. Its argument is the client's own."""


def as_sent(salt: str | None) -> str | None:
    return salt


def chat_request(
    parsed: ParsedParameters,
    *,
    salt: Salt,
    prefix: str,
    model: str,
    messages: Sequence[dict[str, Any]],
    paths: tuple[str, ...],
    history: History,
    tools: Toolset,
    hosted: HostedTools,
    choice: ToolChoice,
    template: Mapping[str, Any] | None = None,
    budget: Mapping[str, Any] | None = None,
    constraints: Sequence[str] = (),
    **own: Any,
) -> ChatRequest:
    """Return the request with the fields that the rows of the table name. `prefix`: beginning of
    the ids of the API's responses. `paths`: of the messages in the body. `template`, `budget`: the
    parameters that decide about the template and the budget of reasoning, if not those of the body.
    `tools`: after the messages were read. `constraints`: the parameters that add calls or a format,
    which others exclude. `own`: fields that each API reads in its own way.

    Raise InvalidRequest, InvalidTools, UnknownTool and UnsupportedParameter for parameters that
    contradict each other."""
    check_plain_only(parsed.values, *constraints)
    beginning, loaded = tools.beginning, tools.loaded
    hosted.check_choice(choice, loaded)
    values, fields = parsed.values, parsed.request | own
    mode, parts = reasoning_mode(values), _kinds_of_parts(messages)
    fields["cache_salt"] = salt(fields.get("cache_salt"))
    if "request_id" in values:
        fields["answer_id"] = f"{prefix}{values['request_id']}"
    return ChatRequest(
        request_id=f"{prefix}{secrets.token_hex(16)}",
        model=model,
        messages=tuple(messages),
        message_paths=paths,
        history_changes=history.changes,
        images=IMAGE in parts,
        documents=PDF in parts,
        tools=loaded,
        listed_tools=None if beginning == loaded else beginning,
        omitted_tools=hosted.types,
        tool_choice=tools.checked(choice),
        reasoning=mode,
        template_kwargs=template_kwargs(values if template is None else template, mode),
        sampling=make_sampling(parsed),
        reasoning_budget=reasoning_budget(values if budget is None else budget),
        echo=_text_of_last(messages) if values.get("echo") else "",
        tokenizing=wire.Tokenizing(**parsed.tokenizing),
        **fields,
    )


def _kinds_of_parts(messages: Sequence[dict[str, Any]]) -> set[str]:
    """Return the types of the content parts in all messages."""
    contents = [message["content"] for message in messages]
    return {part["type"] for content in contents if isinstance(content, list) for part in content}


def _text_of_last(messages: Sequence[dict[str, Any]]) -> str:
    """The text of the last message, if it is the assistant's."""
    last = messages[-1]
    content = last.get("content") if last["role"] == "assistant" else None
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""

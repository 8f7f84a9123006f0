"""What all APIs read in the same way: the tools of a request, and the fields of a chat request."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Generic

import orjson

from toolgate_core import wire
from toolgate_core.tools import OnInvalid, Place, Tool, Words, parse_tool, parse_tools

from ..features.feature import ActiveFeatures, F
from ..request.chat_request import ChatRequest, Extras, ToolChoice, ToolgateOptions
from ..request_fields import Fields
from .shared.history import PromptMessages
from .shared.parameter import ParsedParameters
from .shared.rules import (
    check_combination,
    make_sampling,
    reasoning_budget,
    reasoning_mode,
    template_kwargs,
)
from .shared.tools import (
    READ_TOOLS,
    EchoedTool,
    Form,
    HostedTools,
    OfferedTool,
    ReadTool,
    check_loaded,
    read_toolset,
)
from .surface import Reading


class ApiReader(Generic[F]):
    """Reads one request. Each API has a subclass with its own form of tools. `features`: those of
    the request, which get its tools."""

    API: ClassVar[Form]
    CLIENTS: ClassVar[Sequence[str | None]]
    """Types of tools that clients define."""
    PREFIX: ClassVar[str]
    """Beginning of the ids of the API's responses."""
    CONSTRAINTS: ClassVar[Sequence[str]]
    """The parameters that add calls or a format, which others exclude."""
    WORDS: ClassVar[Words] = ()
    """What paths of chat completions are in the API."""

    def __init__(self, features: ActiveFeatures[F], reading: Reading) -> None:
        self.features = features
        self.hosted = HostedTools(reading.omit_hosted)
        self._reading, self._opens = reading, reading.open_objects

    @property
    def noted(self) -> dict[str, Any]:
        """What the model does not get of the request as it was sent, for its writer."""
        changes = self.features.input.history.changes
        return {"omitted_tools": self.hosted.types, "history_changes": changes}

    def own(self, entry: Any, path: str, namespace: str = "") -> ReadTool:
        """Read a tool that the client runs. `namespace`: of the Responses API. Raise
        InvalidRequest, InvalidTools and UnsupportedParameter."""
        raise NotImplementedError

    def read_tools(self, tools: Sequence[object]) -> None:
        """Read the tools of the request. Raise InvalidRequest, InvalidTools and
        UnsupportedParameter, which name the entry."""
        request = self.features.input
        check_loaded(tools, self.CLIENTS)
        collected, request.shown = self.collected(tools, "tools")
        entries = [*self.prepared(collected), *self.features.more()]
        on_invalid, optional = self._reading.on_invalid, self.features.optional
        parser = copy(self)  # without the request, which has its tools and would have itself
        del parser.features
        request.tools = read_toolset(entries, parser.parsed, on_invalid, self.hosted, optional)

    def collected(
        self, tools: Iterable[object], path: str, namespace: str = ""
    ) -> tuple[list[OfferedTool], tuple[EchoedTool, ...]]:
        """Read an array of tools at its path. Return those that the model is offered, and what the
        response repeats."""
        taken = [self.taken(each, f"{path}[{at}]", namespace) for at, each in enumerate(tools)]
        shown = tuple(each.shown for each in taken if each.shown is not None)
        return [entry for each in taken for entry in each.entries], shown

    def taken(self, entry: Any, path: str, namespace: str) -> ReadTool:
        """Read an entry of `tools`: of a feature, a hosted tool that is left out, or one that the
        client runs. What an earlier request had is not read again."""
        kind = entry.get("type") if isinstance(entry, dict) else ""
        if kind in self.CLIENTS:
            cached = (type(self), namespace, self._opens)
            known = READ_TOOLS.find(cached, entry, self._at_any_path, namespace)
            if known is None:
                return self.own(entry, path, namespace)
            [read] = known.entries
            return ReadTool([OfferedTool(path, *read[1:])], known.shown)
        feature = None if namespace else self.features.of_type(kind)
        taken = None if feature is None else feature.take(Fields(entry, path))
        return self._offered(entry, path, namespace) if taken is None else taken

    def _at_any_path(self, entry: dict[str, Any], namespace: str) -> ReadTool:
        """Read a tool of the client. A deferred one is parsed when the conversation adds it."""
        taken = self.own(entry, "", namespace)
        [read] = taken.entries
        parsed = None if read.deferred else self._tool(read.tool)
        return ReadTool([read._replace(parsed=parsed)], taken.shown)

    def define(self, definition: object, path: str) -> tuple[Tool, ...]:
        """Parse a definition in a message. It is empty if the tool is left out."""
        return self.parsed(self._offered(definition, path).entries, self._reading.on_invalid)

    def prepared(self, entries: Sequence[OfferedTool]) -> Sequence[OfferedTool]:
        """Return the tools of the request in the form in which they are parsed."""
        return entries

    def parsed(self, entries: Sequence[OfferedTool], on_invalid: OnInvalid) -> tuple[Tool, ...]:
        """Parse tools at their own places. `on_invalid` gets InvalidTools, SchemaNotEnforceable and
        UnsupportedParameter."""
        return parse_tools(
            [
                e.parsed or READ_TOOLS.find(self._opens, e.tool, self._tool) or e.tool
                for e in entries
            ],
            places=[
                Place(e.path, e.namespace, self.WORDS if e.words is None else e.words)
                for e in entries
            ],
            open_objects=self._opens,
            on_invalid=on_invalid,
        )

    def _tool(self, entry: object) -> Tool:
        tool = parse_tool(entry, Place(""), self._opens)
        return replace(tool, json=orjson.dumps(tool.definition))

    def _offered(self, entry: Any, path: str, namespace: str = "") -> ReadTool:
        is_left_out = self.hosted.leaves_out(entry, path)
        return ReadTool() if is_left_out else self.own(entry, path, namespace)

    def request(
        self,
        parsed: ParsedParameters,
        conversation: PromptMessages,
        choice: ToolChoice,
        content_format: Tool | None,
        *,
        template: Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
    ) -> ChatRequest:
        """Return the request with the fields that the rows of the table name, after tools and
        messages were read. `template`, `budget`: the parameters that decide about the template and
        the budget of reasoning, if not those of the body.

        Raise InvalidRequest, InvalidTools, UnknownTool and UnsupportedParameter for parameters that
        contradict each other."""
        check_combination(parsed.values, self.CONSTRAINTS)
        features, tools, messages = self.features, self.features.input.tools, conversation.messages
        beginning, loaded = tools.beginning, tools.loaded
        self.hosted.check_choice(choice, loaded)
        values = parsed.values
        fields = {**parsed.request, **features.fields()}
        mode = reasoning_mode(values)
        fields["cache_salt"] = self._reading.salt(fields.get("cache_salt"))
        if "request_id" in values:
            fields["answer_id"] = f"{self.PREFIX}{values['request_id']}"
        return ChatRequest(
            request_id=f"{self.PREFIX}{secrets.token_hex(16)}",
            model=self._reading.model,
            messages=messages,
            message_paths=conversation.paths,
            tools=loaded,
            listed_tools=None if beginning == loaded else beginning,
            gateway_tools=features.runners(),
            optional_tools=features.optional,
            pending_calls=features.pending(),
            tool_choice=tools.checked(choice),
            content_format=content_format,
            reasoning=mode,
            template_kwargs=template_kwargs(values if template is None else template, mode),
            sampling=make_sampling(parsed),
            reasoning_budget=reasoning_budget(values if budget is None else budget),
            echo=_text_of_last(messages) if values.get("echo") else "",
            tokenizing=wire.Tokenizing(**parsed.tokenizing),
            options=ToolgateOptions(**parsed.options),
            extras=Extras(**parsed.extras),
            **fields,
        )


def _text_of_last(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the last message, if it is the assistant's."""
    last = messages[-1]
    content = last.get("content") if last["role"] == "assistant" else None
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""

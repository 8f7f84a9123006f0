"""The public specifications that checks refer to, by topic and API."""

from __future__ import annotations

from dataclasses import dataclass

from .terms import Api


@dataclass(frozen=True)
class Source:
    """Where a rule is specified. The rule itself is in our own words."""

    section: str
    url: str


_CHAT = "https://platform.openai.com/docs/api-reference/chat"
_RESPONSES = "https://platform.openai.com/docs/api-reference/responses"
_EVENTS = "https://platform.openai.com/docs/api-reference/responses-streaming"
_GUIDES = "https://platform.openai.com/docs/guides"
_MESSAGES = "https://docs.anthropic.com/en/api/messages"
_CLAUDE = "https://docs.anthropic.com/en/docs"
_STREAMING = f"{_CLAUDE}/build-with-claude/streaming"
_TOOLS = f"{_CLAUDE}/agents-and-tools/tool-use/implement-tool-use"
_RFC9110 = "https://www.rfc-editor.org/rfc/rfc9110"

SSE = Source(
    "Parsing an event stream",
    "https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream",
)
JSON_OBJECTS = Source("4. Objects", "https://www.rfc-editor.org/rfc/rfc8259#section-4")
TEXT = Source("8.1 Character encoding", "https://www.rfc-editor.org/rfc/rfc8259#section-8.1")
HTTP_ERRORS = Source("15.5 Client error 4xx", f"{_RFC9110}#section-15.5")
CONTENT_TYPE = Source("8.3 Content-Type", f"{_RFC9110}#section-8.3")


def _openai(section: str, url: str) -> dict[Api, Source]:
    """Return the source of both APIs of OpenAI."""
    return dict.fromkeys((Api.CHAT, Api.RESPONSES), Source(section, url))


TOPICS: dict[str, dict[Api, Source]] = {
    "body": {
        Api.CHAT: Source("The chat completion object", f"{_CHAT}/object"),
        Api.RESPONSES: Source("The response object", f"{_RESPONSES}/object"),
        Api.MESSAGES: Source("Messages: response", _MESSAGES),
    },
    "request": {
        Api.CHAT: Source("Create chat completion: request body", f"{_CHAT}/create"),
        Api.RESPONSES: Source("Create a model response: request body", f"{_RESPONSES}/create"),
        Api.MESSAGES: Source("Messages: body", _MESSAGES),
    },
    "stream": {
        Api.CHAT: Source("The chat completion chunk object", f"{_CHAT}-streaming/streaming"),
        Api.RESPONSES: Source("Streaming events", _EVENTS),
        Api.MESSAGES: Source("Streaming messages: event types", f"{_STREAMING}#event-types"),
    },
    "choice": {
        **_openai("Function calling: tool choice", f"{_GUIDES}/function-calling#tool-choice"),
        Api.MESSAGES: Source("Forcing tool use", f"{_TOOLS}#forcing-tool-use"),
    },
    "parallel": {
        **_openai(
            "Parallel function calling", f"{_GUIDES}/function-calling#parallel-function-calling"
        ),
        Api.MESSAGES: Source("Parallel tool use", f"{_TOOLS}#parallel-tool-use"),
    },
    "strict": {
        **_openai("Function calling: strict mode", f"{_GUIDES}/function-calling#strict-mode"),
        Api.MESSAGES: Source("Strict tool use", f"{_CLAUDE}/build-with-claude/structured-outputs"),
    },
    "calls": {
        **_openai("Handling function calls", f"{_GUIDES}/function-calling#handling-function-calls"),
        Api.MESSAGES: Source(
            "Handling tool use and tool result content blocks",
            f"{_TOOLS}#handling-tool-use-and-tool-result-content-blocks",
        ),
    },
    "format": {
        **_openai("Structured outputs", f"{_GUIDES}/structured-outputs"),
        Api.MESSAGES: Source(
            "Structured outputs", f"{_CLAUDE}/build-with-claude/structured-outputs"
        ),
    },
    "reasoning": {
        Api.CHAT: Source(
            "Reasoning models: `reasoning_content`",
            "https://api-docs.deepseek.com/guides/reasoning_model",
        ),
        Api.RESPONSES: Source("Reasoning items", f"{_GUIDES}/reasoning"),
        Api.MESSAGES: Source("Extended thinking", f"{_CLAUDE}/build-with-claude/extended-thinking"),
    },
    "errors": {
        **_openai("Error codes", f"{_GUIDES}/error-codes"),
        Api.MESSAGES: Source("Errors", "https://docs.anthropic.com/en/api/errors"),
    },
    "usage": {
        Api.CHAT: Source("The chat completion object: `usage`", f"{_CHAT}/object"),
        Api.RESPONSES: Source("The response object: `usage`", f"{_RESPONSES}/object"),
        Api.MESSAGES: Source("Messages: `usage`", _MESSAGES),
    },
    "finish": {
        Api.CHAT: Source("The chat completion object: `finish_reason`", f"{_CHAT}/object"),
        Api.RESPONSES: Source(
            "The response object: `status`, `incomplete_details`", f"{_RESPONSES}/object"
        ),
        Api.MESSAGES: Source(
            "Handling stop reasons", "https://docs.anthropic.com/en/api/handling-stop-reasons"
        ),
    },
    "stop": {
        Api.CHAT: Source("Create chat completion: `stop`", f"{_CHAT}/create"),
        Api.MESSAGES: Source("Messages: `stop_sequences`", _MESSAGES),
    },
    "logprobs": {
        Api.CHAT: Source("The chat completion object: `logprobs`", f"{_CHAT}/object"),
        Api.RESPONSES: Source("Create a model response: `include`", f"{_RESPONSES}/create"),
    },
    "state": {
        Api.RESPONSES: Source("Conversation state", f"{_GUIDES}/conversation-state"),
    },
    "count": {
        Api.RESPONSES: Source("Get input token counts", f"{_RESPONSES}/input-tokens"),
        Api.MESSAGES: Source(
            "Count message tokens", "https://docs.anthropic.com/en/api/messages-count-tokens"
        ),
    },
    "custom": {
        **_openai("Custom tools", f"{_GUIDES}/function-calling#custom-tools"),
    },
    "sse": dict.fromkeys(Api, SSE),
    "json_objects": dict.fromkeys(Api, JSON_OBJECTS),
    "text": dict.fromkeys(Api, TEXT),
    "http_errors": dict.fromkeys(Api, HTTP_ERRORS),
    "content_type": dict.fromkeys(Api, CONTENT_TYPE),
}

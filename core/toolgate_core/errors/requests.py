"""Errors of requests that a client must change."""

from __future__ import annotations

from typing import Any, Self

from .base import ToolgateError, shortened

MAX_POINTER = 2_000
"""Maximum length of a JSON Pointer in an error, in characters."""


class InvalidRequest(ToolgateError):
    """The body is not valid JSON, or a parameter has an invalid value or combination with others.

    Correct the parameter that `param` names."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_request"


class RequestTooLarge(InvalidRequest):
    """The body exceeds `TOOLGATE_MAX_BODY_BYTES` or the limit on its JSON values.

    Shorten the messages, or reduce the images."""

    status = 413
    code = "request_too_large"


class RequestTimeout(InvalidRequest):
    """The body did not arrive within `TOOLGATE_BODY_TIMEOUT`.

    Send the request again over a faster connection, or with a smaller body."""

    status = 408
    code = "request_timeout"


class UnsupportedEncoding(InvalidRequest):
    """The body is compressed.

    Send it without `content-encoding`."""

    status = 415
    code = "unsupported_encoding"


class InvalidTools(InvalidRequest):
    """The name of a tool is invalid, or its schema is not a valid JSON Schema.

    Correct the definition that `param` names."""

    code = "invalid_tools"


class UnknownTool(InvalidRequest):
    """`tool_choice` names a tool that is not in `tools`, or not loaded.

    Add the tool to `tools`, or correct the name."""

    code = "unknown_tool"


class UnsupportedParameter(InvalidRequest):
    """The gateway does not support a parameter or its value.

    Remove it. See docs/api/parameters.md."""

    code = "unsupported_parameter"


class PreviousResponseNotFound(InvalidRequest):
    """`previous_response_id` names a response that is not stored for this API key or its team, or
    that continues such a one.

    Send the earlier items in `input`."""

    code = "previous_response_not_found"


class ResponseNotFound(InvalidRequest):
    """This API key or its team has no stored response with this ID, no longer or not yet.

    Correct the ID, or create the response with `store: true`."""

    status = 404
    code = "response_not_found"


class ItemNotFound(InvalidRequest):
    """An `item_reference` names an item that is not stored for this API key or its team.

    Send the item itself."""

    status = 404
    code = "item_not_found"


class SchemaNotEnforceable(InvalidRequest):
    """A schema cannot be enforced: masks cannot enforce a keyword of a tool with `strict: true`, a
    reference leads out of the schema, no value satisfies it …

    Change the keyword at `pointer`, or omit `strict`.

    `pointer`: that of the keyword."""

    code = "schema_not_enforceable"

    def __init__(self, message: str, *, pointer: str, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.pointer = shortened(pointer, MAX_POINTER)

    def details(self) -> dict[str, Any]:
        return {"pointer": self.pointer}


class SchemaTooComplex(SchemaNotEnforceable):
    """A schema exceeds a limit (docs/guide/refused.md), or compiling it those on time or memory.

    Simplify the schema, or split the tool.

    `pointer`: that of the place at which the limit was exceeded."""

    code = "schema_too_complex"


class TemplateRefused(InvalidRequest):
    """The model's chat template failed on the messages, or the model does not support their
    content.

    Correct the messages as the error states."""

    code = "template_refused"


class BudgetTooSmall(InvalidRequest):
    """Even the shortest required call does not fit in `max_tokens`.

    Set `max_tokens` to at least `least_max_tokens`.

    `least_max_tokens`: the minimum."""

    code = "max_tokens_too_small"

    def __init__(self, message: str, *, least: int, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.least = least

    def details(self) -> dict[str, Any]:
        return {"least_max_tokens": self.least}


class ContextLengthExceeded(InvalidRequest):
    """The prompt and `max_tokens` together exceed the model's context length.

    Shorten the messages, or lower `max_tokens`.

    In tokens: `context_length`; `prompt_tokens`, if all of them were counted; `max_tokens` of the
    response, if the prompt alone would fit."""

    code = "context_length_exceeded"

    def __init__(
        self,
        message: str,
        *,
        context: int | None = None,
        prompt: int | None = None,
        output: int | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message, param=param)
        self.context, self.prompt, self.output = context, prompt, output

    @classmethod
    def of_tokens(
        cls,
        context: int,
        prompt: int | None = None,
        output: int | None = None,
        *,
        param: str = "messages",
    ) -> Self:
        """Return the error in the words by which clients of OpenAI's API recognize it, with plain
        numbers. `prompt`: None if the prompt is too long to be counted. `output`: None if the
        prompt alone is too long."""
        message = f"This model's maximum context length is {context} tokens. However, "
        if prompt is not None and output is not None:
            message += (
                f"you requested {prompt + output} tokens ({prompt} in the messages, {output} in "
                "the completion). Please reduce the length of the messages or completion "
                "(max_tokens)."
            )
        else:
            counted = f"more than {context}" if prompt is None else f"{prompt}"
            message += (
                f"your messages have {counted} tokens, which leaves no room for a response. Please "
                "reduce the length of the messages."
            )
        return cls(message, context=context, prompt=prompt, output=output, param=param)

    def details(self) -> dict[str, Any]:
        shown = {
            "context_length": self.context,
            "prompt_tokens": self.prompt,
            "max_tokens": self.output,
        }
        return {name: value for name, value in shown.items() if value is not None}

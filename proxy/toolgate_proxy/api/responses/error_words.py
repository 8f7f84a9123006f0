"""Errors of later steps in the words of the Responses API.

The engine and the backends name the parameters of chat completions.
"""

from __future__ import annotations

import re
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ContextLengthExceeded
from toolgate_core.errors.base import MAX_MESSAGE, MAX_PARAM, shortened

NAMES = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
NAME = re.compile(rf"(?<![\w.])(?:{'|'.join(NAMES)})(?!\w)")
MESSAGE = re.compile(r"(?<![\w.])messages\[(?P<at>\d+)\](?P<content>\.content(?=\[))?")
QUOTED_MESSAGES = re.compile(r"(['`\"])messages\1")
TOO_LONG = "Your input exceeds the context window of this model."
"""OpenAI's words, by which clients of this API recognize a prompt that is too long."""


def in_own_words(body: dict[str, Any], request: ChatRequest | None) -> dict[str, Any]:
    """`body`: an error in OpenAI's form. `request`: the request that failed, if it was parsed."""
    error = body["error"]
    param, message = error.get("param"), _replaced(error["message"], request)
    if error["code"] == ContextLengthExceeded.code and param == "messages":
        message = f"{TOO_LONG} {message}"
    own = {"message": shortened(message, MAX_MESSAGE)}
    if isinstance(param, str):
        own["param"] = "input" if param == "messages" else _replaced(param, request)
        own["param"] = shortened(own["param"], MAX_PARAM)
    return {**body, "error": {**error, **own}}


def _replaced(text: str, request: ChatRequest | None) -> str:
    paths = request.message_paths if request is not None else ()

    def path_of(found: re.Match[str]) -> str:
        at, content = int(found["at"]), found["content"] or ""
        if request is None or at >= len(paths):
            return found[0]
        is_result = request.messages[at]["role"] == "tool"
        return paths[at] + (content.replace("content", "output") if is_result else content)

    text = NAME.sub(lambda found: NAMES[found[0]], text)
    return QUOTED_MESSAGES.sub(r"\1input\1", MESSAGE.sub(path_of, text))

"""The response object, with the fields of the request that it repeats."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal

from toolgate_core.chat_request import ChatRequest
from toolgate_core.deltas import Finish

from ....chat.response import ChatResponse, TokenCounts
from ...shared.output import finish_fields, prompt_fields
from ..feature import Shown, written_of
from ..tools import offered
from .collector import Output

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed"]
CUT = {"reason": "max_output_tokens"}


class Body:
    """The response objects of one response. `model` is the name that the client sent. `created`:
    when it was queued, if it is generated in the background."""

    def __init__(self, response: ChatResponse, model: str, created: int | None = None) -> None:
        self._response = response
        self._model = model
        self._created = created or response.head.created
        names = {tool.name for tool in response.request.tools}
        written = written_of(response.request)
        self._repeated = _repeated(written.values, written.tools, names)

    def at_start(self) -> dict[str, Any]:
        """Before the first item."""
        return self._made("in_progress", [])

    def at_end(self, output: Output) -> dict[str, Any]:
        """Of a response that is completed, or incomplete because of the maximum of tokens."""
        finish = output.finish or Finish("stop")
        cut = finish.reason == "length"
        usage = usage_of(self._response.all_counts)
        return {
            **self._made(
                "incomplete" if cut else "completed",
                output.items(),
                completed_at=None if cut else int(time.time()),
                incomplete_details=CUT if cut else None,
                usage=usage,
            ),
            **self._additions(output, finish),
        }

    def failed(self, output: Output, error: Mapping[str, Any]) -> dict[str, Any]:
        """`error`: the error object, with `code` and `message`. Only a response of the background
        is stored if it failed."""
        return self._made(
            "failed",
            output.items(),
            error=_shown(error),
            usage=usage_of(self._response.all_counts),
            store=self._repeated["background"],
        )

    def _made(self, status: Status, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        head = self._response.head
        return {
            **_response(head.id, self._created, self._model, status),
            "output": output,
            **self._repeated,
            "usage": None,
            **more,
        }

    def _additions(self, output: Output, finish: Finish) -> dict[str, Any]:
        """Fields beyond OpenAI's, as in chat completions."""
        fields = finish_fields(finish)
        if self._response.request.return_token_ids:
            fields["token_ids"] = output.token_ids
        return fields | prompt_fields(self._response)


def queued_response(request: ChatRequest, model: str) -> dict[str, Any]:
    """The object of a response that waits in the background."""
    response_id = request.answer_id or request.request_id
    written, names = written_of(request), {tool.name for tool in request.tools}
    return {
        **_response(response_id, int(time.time()), model, "queued"),
        "output": [],
        **_repeated(written.values, written.tools, names),
        "usage": None,
    }


def failed_response(error: Mapping[str, Any]) -> dict[str, Any]:
    """The object of a response that failed before it began, so that it has no id. `error`: the
    error object."""
    return {
        **_response("resp_0", 0, "", "failed"),
        "error": _shown(error),
        "output": [],
        **_repeated({"store": False}, (), ()),
        "usage": None,
    }


def _response(response_id: str, created: int, model: str, status: Status) -> dict[str, Any]:
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "completed_at": None,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": model,
    }


def _shown(error: Mapping[str, Any]) -> dict[str, Any]:
    return {"code": error["code"], "message": error["message"]}


def is_summarized(repeated: Mapping[str, Any]) -> bool:
    """Whether the request asks for a summary of the reasoning."""
    return _summary(repeated) is not None


def _summary(repeated: Mapping[str, Any]) -> str | None:
    reasoning = repeated.get("reasoning", {})
    summary: str | None = reasoning.get("summary") or reasoning.get("generate_summary")
    return None if summary == "none" else summary


def _repeated(
    given: Mapping[str, Any], tools: Iterable[Shown], names: Container[str]
) -> dict[str, Any]:
    """The fields of the request with the defaults of OpenAI's API. `names`: of those of its tools
    that the model is offered."""
    text = given.get("text", {})
    return {
        "background": given.get("background", False),
        "instructions": given.get("instructions"),
        "max_output_tokens": given.get("max_output_tokens"),
        "max_tool_calls": given.get("max_tool_calls"),
        "parallel_tool_calls": given.get("parallel_tool_calls", True),
        "previous_response_id": given.get("previous_response_id"),
        "prompt": None,
        "prompt_cache_key": given.get("prompt_cache_key"),
        "prompt_cache_retention": given.get("prompt_cache_retention"),
        "reasoning": {
            "effort": given.get("reasoning", {}).get("effort"),
            "summary": _summary(given),
        },
        "safety_identifier": given.get("safety_identifier"),
        "service_tier": "default",
        "store": given.get("store", True),
        "temperature": given.get("temperature", 1.0),
        "text": {
            "format": _format(text.get("format", {"type": "text"})),
            "verbosity": text.get("verbosity", "medium"),
        },
        "tool_choice": given.get("tool_choice", "auto"),
        "tools": offered(tools, names),
        "top_logprobs": given.get("top_logprobs", 0),
        "top_p": given.get("top_p", 1.0),
        "presence_penalty": given.get("presence_penalty", 0.0),
        "frequency_penalty": given.get("frequency_penalty", 0.0),
        "truncation": given.get("truncation", "disabled"),
        "user": given.get("user"),
        "metadata": given.get("metadata", {}),
    }


def _format(given: Mapping[str, Any]) -> dict[str, Any]:
    if given.get("type") != "json_schema":
        return dict(given)
    return {"description": None, "strict": False, **given}


def usage_of(counts: TokenCounts) -> dict[str, Any]:
    return {
        "input_tokens": counts.prompt,
        # Nothing is billed for writing to the cache.
        "input_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": 0},
        "output_tokens": counts.completion,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.prompt + counts.completion,
    }

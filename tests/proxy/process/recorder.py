"""Callbacks of a team, as LiteLLM's configuration names them: they write what they are told to the
file that RECORDED names, a JSON object a line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from litellm.integrations.custom_logger import CustomLogger


def _write(event: str, **fields: Any) -> None:
    with Path(os.environ["RECORDED"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event, **fields}, default=str) + "\n")


def _told(kwargs: dict[str, Any], response: Any) -> dict[str, Any]:
    params = kwargs["litellm_params"]
    error = kwargs.get("exception")
    return {
        "payload": kwargs["standard_logging_object"],
        "messages": kwargs.get("messages"),
        "deployment": (params.get("metadata") or {}).get("deployment"),
        "response": response.model_dump() if hasattr(response, "model_dump") else None,
        "error": type(error).__name__ if error else None,
    }


class Recorder(CustomLogger):
    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        if not data.get("messages"):
            return data
        last = data["messages"][-1]["content"]
        if last == "refused by a hook":
            from fastapi import HTTPException

            raise HTTPException(403, {"error": "Not on Mondays."})
        if last == "changed by a hook":
            data["messages"][-1]["content"] = "hi"
            data["temperature"] = 0.25
        return data

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        _write("success", **_told(kwargs, response_obj))

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        _write("failure", **_told(kwargs, response_obj))

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> None:
        _write("failure_hook", error=type(original_exception).__name__)


recorder = Recorder()

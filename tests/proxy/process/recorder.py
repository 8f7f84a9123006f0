"""Callbacks of a team, as LiteLLM's configuration names them: they write what they are told to the
file that RECORDED names, a JSON object a line."""

import json
import os
from pathlib import Path

from litellm.integrations.custom_logger import CustomLogger


def _write(event, **fields):
    with Path(os.environ["RECORDED"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event, **fields}, default=str) + "\n")


def _told(kwargs, response):
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
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        _write("success", **_told(kwargs, response_obj))

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        _write("failure", **_told(kwargs, response_obj))

    async def async_post_call_failure_hook(
        self, request_data, original_exception, user_api_key_dict, traceback_str=None
    ):
        _write("failure_hook", error=type(original_exception).__name__)


recorder = Recorder()

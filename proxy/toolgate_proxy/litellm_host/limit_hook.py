"""Where LiteLLM asks whether a request may go on, and tells what it used.

LiteLLM 1.106.2 calls `async_pre_call_hook` on every route that reaches a model, once a request,
with the body as it was parsed (proxy/utils.py:2689). Its own limiter goes by limits that stand on
`UserAPIKeyAuth`; ours stand on the key instead, and docs/decisions/0014-limits.md says why.
"""

from __future__ import annotations

from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from toolgate_core.errors import RateLimited, ToolgateError

from .. import meter as meters
from ..limits import estimate
from ..service import service
from . import auth as litellm_auth
from . import patches as litellm_host

WITHOUT_OUTPUT = ("aembedding", "embedding", "arerank", "rerank", "amoderation", "moderation")


class LimitHook(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> None:
        meter = meters.current()
        if meter is None:
            return
        model = data.get("model")
        meter.model = model if isinstance(model, str) else None
        meter.request_id = litellm_auth.call_id(data)
        key = meter.key
        if key is None or meter.admission is not None:
            return
        here = service()
        meter.set_aside = estimate.tokens(
            data,
            key.limits,
            here.settings.limit_output_estimate,
            output=call_type not in WITHOUT_OUTPUT,
        )
        if not key.limits.any:
            meter.set_aside = 0
        try:
            meter.admission = await here.limiter.admit(
                key, meter.request_id, meter.set_aside, meter.used
            )
        except ToolgateError as error:
            if isinstance(error, RateLimited):
                meter.headers |= error.headers
                if error.retry_after is None:
                    meter.headers["x-should-retry"] = "false"  # OpenAI's SDKs heed it
            raise litellm_host.host_error(error, meter.model or "", ours=False) from error
        meter.headers |= meter.admission.headers

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Tokens of other providers; ours has counted its own."""
        meter = meters.current()
        usage = getattr(response_obj, "usage", None)
        if meter is None or meter.counted or usage is None:
            return
        prompt = getattr(usage, "prompt_tokens", None) or getattr(usage, "input_tokens", 0) or 0
        total = getattr(usage, "total_tokens", None) or 0
        meter.note(prompt, max(0, total - prompt))
        if meter.admission is not None:
            await service().limiter.ledger.close(meter.admission.entry)


hook = LimitHook()

"""A chat request in the terms of one backend: within its bounds, in the form of its model's chat
template, and with its enforcement plan.

Responses, counts and generation without enforcement begin with the same preparation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest, HistoryChange
from toolgate_core.dialects.dialect import Dialect, Switch
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import BackendFailed
from toolgate_core.plan import EnforcementPlan, make_plan
from toolgate_core.text_size import check_text, check_token_ids

from ...backend_client.faults import SAME_RELEASE
from ...context import RequestContext
from ...routing.deployments import Deployment
from ...settings import Settings
from .backend_request import chat_prompt
from .call_history import with_family_ids
from .images import Images, without_images_in_results

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Values of `reasoning_effort`, in ascending order."""


@dataclass(frozen=True)
class Prepared:
    request: ChatRequest
    """In the terms of the model."""
    info: wire.Info
    dialect: Dialect
    plan: EnforcementPlan

    @property
    def prompt(self) -> wire.ChatPrompt:
        return chat_prompt(self.request)

    def count_message(self) -> wire.CountTokens:
        """Return the message that asks for the number of tokens of the prompt."""
        most = self.request.sampling.max_tokens or 0
        return wire.CountTokens(model=self.request.model, prompt=self.prompt, max_tokens=most)


class Preparation:
    """Fetches the images of requests, by the settings of the gateway."""

    def __init__(self, settings: Settings) -> None:
        self._images = Images(fetch=settings.image_urls)

    async def prepared(self, request: ChatRequest, deployment: Deployment) -> Prepared:
        """Raise ToolgateError if the request is refused or the backend fails."""
        request = await self.with_images(request, deployment)
        return prepared(request, await deployment.backend.info())

    async def with_images(
        self, request: ChatRequest, deployment: Deployment, context: RequestContext | None = None
    ) -> ChatRequest:
        """Return the request with all images as data. For a model that takes text only, those in
        results of calls are left out, which is noted in `context`. Raise ToolgateError."""
        if not request.images:
            return request
        info = await deployment.backend.info()
        messages, places = request.messages, tuple[int, ...]()
        if not info.images:
            messages, places = without_images_in_results(messages)
        if context is not None:
            paths = (request.message_paths[at] for at in places)
            context.note_changes(HistoryChange("image", path) for path in paths)
        messages = await self._images.inlined(messages, accepts_images=info.images)
        return replace(request, messages=messages)


def prepared(request: ChatRequest, info: wire.Info) -> Prepared:
    """Return the request in the terms of the model. A request that is in these terms stays the
    same. Raise InvalidRequest, ContextLengthExceeded and BackendFailed."""
    dialect = _dialect(info)
    check_bounds(request, info)
    messages = with_family_ids(request.messages, dialect)
    if messages is not request.messages:
        request = replace(request, messages=messages)
    request = with_reasoning_switch(request, dialect)
    return Prepared(request, info, dialect, make_plan(request, dialect))


def check_bounds(request: ChatRequest, info: wire.Info) -> None:
    """Check the bounds that depend on the model: its context length and its vocabulary. Raise
    InvalidRequest and ContextLengthExceeded."""
    limits = info.limits
    if limits.vocabulary is not None:
        check_token_ids(request.sampling, limits.vocabulary)
    if limits.max_token_bytes is not None:
        tools = [tool.definition for tool in request.prompt_tools]
        check_text(
            request.messages,
            tools,
            request.template_kwargs,
            context=limits.max_model_len,
            max_token_bytes=limits.max_token_bytes,
        )


def _dialect(info: wire.Info) -> Dialect:
    if info.dialect not in DIALECTS:
        raise BackendFailed(
            f"The backend uses the unknown dialect {info.dialect!r}. {SAME_RELEASE}"
        )
    return DIALECTS[info.dialect]


def with_reasoning_switch(request: ChatRequest, dialect: Dialect) -> ChatRequest:
    """Return the request with the template argument of the family. Requests switch reasoning by
    `enable_thinking` or `reasoning_effort`, and each family's template has an argument of its own.
    An argument that the request already has in `chat_template_kwargs` is kept, and decides if
    nothing else does."""
    switch = dialect.reasoning.switch if dialect.reasoning else None
    if switch is None:
        return request
    given = request.template_kwargs or {}
    effort = given.get("reasoning_effort")
    own = given.get(switch.argument)
    if request.reasoning == "default" and own is not None and own != effort:
        if own == switch.off:
            return replace(request, reasoning="off")
        return replace(request, reasoning="on") if own == switch.on else request
    if request.reasoning == "default":
        return request
    value = _value(switch, effort, on=request.reasoning == "on")
    if switch.argument in given and switch.argument != "reasoning_effort":
        value = given[switch.argument]
    kwargs = {name: each for name, each in given.items() if name != switch.argument}
    if value is not None:
        kwargs[switch.argument] = value
    return replace(request, template_kwargs=kwargs)


def _value(switch: Switch, effort: object, *, on: bool) -> object:
    """The value of the family's argument; None to leave it out."""
    if not on:
        return switch.off
    if not switch.levels or effort not in EFFORTS:
        return switch.on
    wanted = EFFORTS.index(str(effort))
    known = [level for level in EFFORTS if level in switch.levels]
    return min(known, key=lambda level: abs(EFFORTS.index(level) - wanted))

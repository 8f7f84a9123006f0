"""The grammars and validators of one request at one backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from toolgate_core import wire
from toolgate_core.schema.canonical import TEXT
from toolgate_core.tools import Tool

from ..context import RequestContext
from ..grammars.service import NeededGrammars
from ..request.chat_request import ChatRequest
from ..request.plan import EnforcementPlan, make_plan
from ..routing.deployments import Deployment
from .calls import CallCheck
from .invalid_tools import LeftOut, without
from .preparation import Engine, PreparedRequest
from .resampling_state import Resample, resample_request

NEEDED: TypeAdapter[tuple[wire.NeededGrammar, ...]] = TypeAdapter(tuple[wire.NeededGrammar, ...])
"""pydantic makes many models in half the time that it takes for each."""


@dataclass(frozen=True)
class Constraints:
    """What constrains the response to a request."""

    prepared: PreparedRequest
    """Without invalid tools."""
    needed: NeededGrammars
    resample: Resample | None
    """The choice that is continued; None: the request begins."""
    open_objects: bool

    def message(self, request_id: str | None, *, metered: bool = False) -> wire.GenerateRequest:
        """Return the message that begins the generation. `request_id`: the client's
        `x-request-id`. Clients may repeat it, but vLLM's ids are unique, so the gateway's own id is
        appended. `metered`: whether a limit or a log event counts those of an abandoned response as
        well. Raise InvalidRequest."""
        prepared, needed, request = self.prepared, self.needed, self.prepared.request
        # Only a stream can be closed at a stop string or an invalid call.
        may_be_invalid = needed.residual or needed.unknown
        may_be_closed = request.stop or request.sampling.stop_token_ids or may_be_invalid
        needs_each_token = request.stream or bool(may_be_closed)
        seed = request.sampling.seed
        earlier_calls = sum(len(m.get("tool_calls") or ()) for m in request.messages)
        message = wire.GenerateRequest(
            request_id=f"{request_id}.{request.request_id}" if request_id else request.request_id,
            model=request.model,
            prompt=prepared.prompt,
            sampling=request.sampling,
            enforcement=prepared.plan.wire(
                needed.keys,
                earlier_calls=earlier_calls,
                # A client may send the same seed in each turn; the ids of a conversation differ.
                id_seed=request.request_id if seed is None else f"seed {seed}, {earlier_calls}",
            ),
            grammars=_grammars(request, prepared.plan, needed),
            open_objects=self.open_objects,
            fingerprint=prepared.info.fingerprint,
            # Only the tokens of a stream are known before its end. Otherwise one response with all
            # tokens costs less.
            stream=needs_each_token or metered,
            batched=metered and not needs_each_token,
            fit_max_tokens=request.options.fit_max_tokens,
            return_prompt_ids=request.extras.return_token_ids,
            return_prompt_text=request.extras.return_prompt_text,
            tokens_as_ids=request.extras.tokens_as_ids,
            priority=request.priority,
            cache_salt=request.cache_salt,
            trace=request.extras.trace,
        )
        return resample_request(message, self.resample) if self.resample else message


@dataclass(frozen=True)
class ConstraintLoader:
    """What constrains one request at one backend."""

    engine: Engine
    deployment: Deployment
    context: RequestContext

    async def load(self, prepared: PreparedRequest, resample: Resample | None) -> Constraints:
        """Find what is known of the grammars. Tools whose schemas cannot be enforced are left out,
        if the settings omit them. Raise ToolgateError."""
        needed, prepared = await self._needed(prepared.plan.grammars, prepared)
        self.context.notes.note_grammars(len(needed.keys), new=bool(needed.unknown))
        return Constraints(prepared, needed, resample, self.engine.settings.open_objects)

    async def offered(self, prepared: PreparedRequest) -> PreparedRequest:
        """Return the request without the tools that `load` leaves out. New grammars are loaded, but
        only if the settings omit tools. Raise ToolgateError."""
        if self.engine.settings.invalid_tools != "omit" and not prepared.request.optional_tools:
            return prepared
        tools = prepared.plan.candidates
        needed, offered = await self._needed(tools, prepared)
        if needed.unknown:
            new = [tool for tool in tools if needed.keys.get(tool.hash) in needed.unknown]
            await self.deployment.grammars.prepare(new)
            _, offered = await self._needed(tools, prepared)
        return offered

    def check(self, loaded: Constraints) -> CallCheck:
        """Return what validates the calls of a generation."""
        tools, residual = loaded.prepared.plan.grammars, loaded.needed.residual
        names = [tool.name for tool in tools if tool.hash in residual]
        return CallCheck(tools, names, self.engine.validators, self.context.caller.sender)

    async def _needed(
        self, tools: Sequence[Tool], prepared: PreparedRequest
    ) -> tuple[NeededGrammars, PreparedRequest]:
        """Return the grammars of `tools`, and the request without those that are left out."""
        notes, owner = self.context.notes, self.context.caller.sender
        omit = self.engine.settings.invalid_tools == "omit"
        invalid = LeftOut(notes, omit=omit, optional=prepared.request.optional_tools)
        grammars = self.deployment.grammars
        needed = await grammars.needed(tools, prepared.info, owner, invalid.leave_out)
        schemas = [tool for tool in tools if TEXT not in tool.parameters]
        checked = [tool for tool in schemas if tool.hash in needed.keys]
        await self.engine.validators.prepare(checked, owner, invalid.leave_out)
        if not invalid.errors:
            return needed, prepared
        needed = needed.without(tool.hash for tool in tools if tool.name in invalid.errors)
        request = without(prepared.request, invalid.errors, notes)
        return needed, replace(prepared, request=request, plan=make_plan(request, prepared.dialect))


def _grammars(
    request: ChatRequest, plan: EnforcementPlan, needed: NeededGrammars
) -> tuple[wire.NeededGrammar, ...]:
    """Name each grammar by its tool in the prompt, if a backend can read its schema there."""
    places = {tool.hash: at for at, tool in enumerate(request.prompt_tools)}
    grammars = list[dict[str, Any]]()
    for tool in plan.grammars:
        key = needed.keys[tool.hash]
        about = {"examined": needed.records.get(key), "report": key in needed.unknown}
        grammar: dict[str, Any] = {"key": key, "owner": needed.owner, **about}
        if tool.follows_from_definition and tool.hash in places:
            grammar["tool"] = places[tool.hash]
        else:
            grammar["source"] = {"key": key, "name": tool.name, "parameters": tool.parameters}
        grammars.append(grammar)
    return NEEDED.validate_python(grammars)

"""The grammars and validators of one request at one backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from toolgate_core import wire
from toolgate_core.plan import make_plan
from toolgate_core.tools import Tool

from ..context import RequestContext
from ..grammars.service import LoadedGrammars
from ..routing.deployments import Deployment
from ..settings import Settings
from ..validation.service import ValidationService
from . import spans
from .request.backend_request import backend_request, schema_params
from .request.invalid_tools import InvalidTools, without
from .request.preparation import Prepared
from .resampling_state import Resample, resample_request


@dataclass(frozen=True)
class Constraints:
    """What constrains the response to a request."""

    prepared: Prepared
    """Without invalid tools."""
    loaded: LoadedGrammars
    resample: Resample | None
    """The choice that is continued; None: the request begins."""

    @property
    def keys(self) -> Mapping[str, str]:
        """The grammar keys by tool name."""
        candidates = self.prepared.plan.candidates
        return {tool.name: self.loaded.keys[tool.hash] for tool in candidates}

    def message(self, context: RequestContext) -> wire.GenerateRequest:
        """Return the message that begins the generation. Raise InvalidRequest."""
        message = backend_request(
            self.prepared.request,
            self.prepared.plan,
            self.loaded,
            context.request_id,
            metered=context.key is not None and context.key.limits.counts_output,
        )
        return resample_request(message, self.resample) if self.resample else message


class ConstraintLoader:
    def __init__(self, settings: Settings, validators: ValidationService) -> None:
        self._validators = validators
        self._omits_invalid = settings.invalid_tools == "omit"

    async def load(
        self,
        prepared: Prepared,
        deployment: Deployment,
        context: RequestContext,
        resample: Resample | None,
    ) -> Constraints:
        """Load the grammars at the backend. Tools whose schemas can't be enforced are left out, if
        the settings omit them. Raise ToolgateError."""
        loaded, prepared = await self._loaded(prepared.plan.grammars, prepared, deployment, context)
        context.grammars.note(len(loaded.keys), loaded.tier, loaded.milliseconds)
        return Constraints(prepared, loaded, resample)

    async def offered(
        self, prepared: Prepared, deployment: Deployment, context: RequestContext
    ) -> Prepared:
        """Return the request without the tools that `load` leaves out. Grammars are loaded only if
        the settings omit tools. Raise ToolgateError."""
        if not self._omits_invalid and not prepared.request.optional_tools:
            return prepared
        tools = prepared.plan.candidates
        _, offered = await self._loaded(tools, prepared, deployment, context)
        return offered

    async def _loaded(
        self,
        tools: Sequence[Tool],
        prepared: Prepared,
        deployment: Deployment,
        context: RequestContext,
    ) -> tuple[LoadedGrammars, Prepared]:
        """Return the grammars of `tools`, and the request without those that are left out."""
        params, owner = schema_params(prepared.request), context.sender
        optional = prepared.request.optional_tools
        invalid = InvalidTools(context, omit=self._omits_invalid, optional=optional)
        with spans.grammars(len(tools)) as note:
            loaded = await deployment.grammars.ensure(
                tools, params, prepared.info, owner, invalid.leave_out
            )
            note(loaded)
        checked = [tool for tool in tools if tool.name and tool.hash in loaded.keys]
        await self._validators.prepare(checked, params, owner, invalid.leave_out)
        if not invalid.errors:
            return loaded, prepared
        request = without(prepared.request, invalid.errors)
        plan = make_plan(request, prepared.dialect)
        return loaded, replace(prepared, request=request, plan=plan)

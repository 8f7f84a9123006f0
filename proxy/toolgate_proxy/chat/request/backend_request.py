"""The message that sends a chat request to a backend."""

from __future__ import annotations

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.plan import EnforcementPlan

from ...grammars.service import LoadedGrammars


def chat_prompt(request: ChatRequest) -> wire.ChatPrompt:
    return wire.ChatPrompt(
        messages=request.messages,
        tools=tuple(tool.definition for tool in request.prompt_tools) or None,
        template_kwargs=request.template_kwargs or {},
        tokenizing=request.tokenizing,
    )


def backend_request(
    request: ChatRequest,
    plan: EnforcementPlan,
    loaded: LoadedGrammars,
    request_id: str | None,
    *,
    metered: bool = False,
) -> wire.GenerateRequest:
    """`request_id`: the client's `x-request-id`. Clients may repeat it, but vLLM's ids are unique,
    so the gateway's own id is appended. `metered`: whether a limit counts the tokens, those of an
    abandoned response as well."""
    seed = request.sampling.seed
    earlier_calls = sum(len(m.get("tool_calls") or ()) for m in request.messages)
    return wire.GenerateRequest(
        request_id=f"{request_id}.{request.request_id}" if request_id else request.request_id,
        model=request.model,
        prompt=chat_prompt(request),
        sampling=request.sampling,
        enforcement=plan.wire(
            loaded.keys,
            earlier_calls=earlier_calls,
            # A client may send the same seed in each turn; the ids of a conversation differ.
            id_seed=request.request_id if seed is None else f"seed {seed}, {earlier_calls}",
        ),
        # Only a stream can be closed at a stop string or an invalid call, and only the tokens of a
        # stream are known before its end. Otherwise one response with all tokens costs less.
        stream=request.stream
        or metered
        or bool(request.stop or request.sampling.stop_token_ids or loaded.residual),
        return_prompt_ids=request.return_token_ids,
        return_prompt_text=request.return_prompt_text,
        tokens_as_ids=request.tokens_as_ids,
        priority=request.priority,
        cache_salt=request.cache_salt,
        trace=_trace(plan, loaded) if request.trace else None,
    )


def _trace(plan: EnforcementPlan, loaded: LoadedGrammars) -> wire.TraceRequest:
    return wire.TraceRequest(
        grammars=tuple(
            wire.GrammarSource(
                key=loaded.keys[tool.hash], name=tool.name, parameters=tool.parameters
            )
            for tool in plan.grammars
        )
    )


def schema_params(request: ChatRequest) -> dict[str, str]:
    """The request parameter that contains each schema or grammar, by tool name, for error
    messages."""
    content = (request.content_format,) if request.content_format else ()
    return {tool.name: tool.param for tool in (*request.tools, *content)}

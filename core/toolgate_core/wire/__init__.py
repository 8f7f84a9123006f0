"""The messages between gateway and backend.

`GET  /v1/toolgate/info`      → `Info`
`GET  /v1/toolgate/status`    → `Status`
`PUT  /v1/toolgate/grammars`  `LoadGrammars` → `GrammarVerdicts`
`POST /v1/toolgate/instances` `WalkInstances` → `InstanceWalks`
`POST /v1/toolgate/count`     `CountTokens` → `TokenCount`
`POST /v1/toolgate/generate`  `GenerateRequest` → an SSE stream of `StreamEvent`s, one JSON object a
`data:` line. Lines that begin with a colon are keep-alives. With `stream=false` the response is one
JSON array of the same events. Errors before the first event are HTTP errors with OpenAI's error
object.
"""

from __future__ import annotations

from .events import (
    Adaptation,
    EndEvent,
    ErrorEvent,
    PromptLogprob,
    StartEvent,
    StreamEvent,
    TokenKind,
    TokenLogprob,
    TokensEvent,
    TokenTrace,
    TopLogprob,
    TraceEvent,
    TracePhase,
    UsageEvent,
    joined,
    stream_events,
)
from .grammars import (
    MAX_INSTANCE_LENGTH,
    MAX_INSTANCES,
    MEASUREMENTS,
    GrammarSource,
    GrammarVerdict,
    GrammarVerdicts,
    InstanceWalk,
    InstanceWalks,
    LoadGrammars,
    ResidualKeyword,
    WalkInstances,
)
from .info import Info, Limits, MarkIds, Status
from .message import FORMAT, MAX_COUNT, Message
from .request import (
    TOOL_DEFINITIONS,
    Candidate,
    ChatPrompt,
    CountTokens,
    Enforcement,
    GenerateRequest,
    Prompt,
    ReasoningMode,
    Sampling,
    TokenCount,
    Tokenizing,
    TokensPrompt,
    TraceRequest,
)

__all__ = [
    "FORMAT",
    "MAX_COUNT",
    "MAX_INSTANCES",
    "MAX_INSTANCE_LENGTH",
    "MEASUREMENTS",
    "TOOL_DEFINITIONS",
    "Adaptation",
    "Candidate",
    "ChatPrompt",
    "CountTokens",
    "EndEvent",
    "Enforcement",
    "ErrorEvent",
    "GenerateRequest",
    "GrammarSource",
    "GrammarVerdict",
    "GrammarVerdicts",
    "Info",
    "InstanceWalk",
    "InstanceWalks",
    "Limits",
    "LoadGrammars",
    "MarkIds",
    "Message",
    "Prompt",
    "PromptLogprob",
    "ReasoningMode",
    "ResidualKeyword",
    "Sampling",
    "StartEvent",
    "Status",
    "StreamEvent",
    "TokenCount",
    "TokenKind",
    "TokenLogprob",
    "TokenTrace",
    "Tokenizing",
    "TokensEvent",
    "TokensPrompt",
    "TopLogprob",
    "TraceEvent",
    "TracePhase",
    "TraceRequest",
    "UsageEvent",
    "WalkInstances",
    "joined",
    "stream_events",
]

"""The messages between gateway and backend.

`POST /v1/toolgate/info`      → `Info`; also GET
`GET  /v1/toolgate/status`    → `Status`
`POST /v1/toolgate/grammars`  `LoadGrammars` → `GrammarVerdicts`
`POST /v1/toolgate/count`     `CountTokens` → `TokenCount`
`POST /v1/toolgate/generate`  `GenerateRequest` → an SSE stream of `StreamEvent`s, one JSON object a
`data:` line. Lines that begin with a colon are keep-alives. With `stream=false` the response is one
JSON array of the same events. Errors before the first event are HTTP errors with OpenAI's error
object.
"""

from __future__ import annotations

from .events import *
from .message import *
from .request import *

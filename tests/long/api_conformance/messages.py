"""Black-box evaluation of the Messages API, alone and against chat completions and Responses.

    python -m tests.long messages-conformance --model MODEL_DIR --bias closers --bias hostile
    python -m tests.long messages-conformance --model MODEL_DIR --url http://127.0.0.1:4000 --key …

Each case is a set of BFCL tools with a `tool_choice`, `disable_parallel_tool_use` and thinking on,
off or by default; half of them stream input eagerly. It is sent four times with the same seed: to
the Messages API whole and streamed, to chat completions and to the Responses API. Every answer is
checked, events and messages by Anthropic's own models, and the four must be equal. What else is in
the engine's batch can change a sampled token, so a case whose answers differ is repeated alone
before it counts.
"""

from __future__ import annotations

from tests.long.api_conformance.run import run
from toolgate_verify.terms import Api


def main() -> int:
    return run(__doc__ or "", Api.MESSAGES, [Api.CHAT, Api.RESPONSES])

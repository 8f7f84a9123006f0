"""Black-box evaluation of the Responses API, alone and against chat completions.

    python -m tests.long responses-conformance --model MODEL_DIR --bias closers --bias hostile
    python -m tests.long responses-conformance --model MODEL_DIR --url http://127.0.0.1:4000 --key …

Each case is a set of BFCL tools with a `tool_choice`, `parallel_tool_calls` and reasoning on, off
or by default. It is sent three times with the same seed: to the Responses API whole and streamed,
and to chat completions. Every answer is checked, events and response objects by OpenAI's own
models, and the three must be equal. What else is in the engine's batch can change a sampled token,
so a case whose answers differ is repeated alone before it counts.
"""

from __future__ import annotations

from tests.long.api_conformance.run import run
from toolgate_verify.terms import Api


def main() -> int:
    return run(__doc__ or "", Api.RESPONSES, [Api.CHAT])

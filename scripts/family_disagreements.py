"""Why vLLM's parser of a family reads other calls than the segmenter, for docs/families.md."""

from __future__ import annotations

_FLOATS = "A number beyond the range of a float becomes the string `Infinity`."
_TOKENS = "Without the marks as tokens (half of the walks), vLLM's parser raises an error."
_FUNCTION = (
    "A call ends at `</function>` inside a value, and the rest of the value is lost. In this form, "
    "a value ends at `</parameter>`."
)
_STRINGS = "A number beyond the range of a float becomes a string."

DISAGREEMENTS = {
    "deepseek_r1": _TOKENS,
    "deepseek_v31": _TOKENS,
    "glm45": f"{_STRINGS} A JSON value ends at `</arg_value>` inside one of its strings.",
    "glm47": f"{_STRINGS} A JSON value ends at `</arg_value>` inside one of its strings.",
    "granite3": _FLOATS,
    "granite33": _FLOATS,
    "internlm2": "Several calls in a turn raise an error.",
    "k2_horizon": _STRINGS,
    "kimi_k2": _FLOATS,
    "mimo_v2": _FUNCTION,
    "mistral_v11": f"`[CALL_ID]` is not read. {_TOKENS}",
    "mistral_v13": _FLOATS,
    "qwen3_5": _FUNCTION,
    "qwen3_coder": _FUNCTION,
    "seed_oss": "Line breaks at the beginning and the end of a value are removed.",
    "step3_5": _FUNCTION,
}
"""By dialect. What is described is vLLM's reading; the segmenter's is the one in the text."""

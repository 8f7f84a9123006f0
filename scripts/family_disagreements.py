"""Where vLLM's parser of a family reads other calls than the segmenter, for families_doc.py."""

from __future__ import annotations

_FLOATS = "A number beyond the range of a float becomes the string `Infinity`."
_TOKENS = "Without the marks as tokens (half of the walks), vLLM's parser raises an error."
_FUNCTION = (
    "A call ends at `</function>` inside a value, and the rest of the value is lost. In this form, "
    "a value ends at `</parameter>`."
)
_INVOKE = "A call ends at the end mark of a call inside a value, and the rest of the value is lost."
_LINES = "Line breaks at the beginning and the end of a value are removed."
_STRINGS = "A number beyond the range of a float becomes a string."

DISAGREEMENTS = {
    "deepseek_r1": _TOKENS,
    "deepseek_v31": _TOKENS,
    "deepseek_v32": _INVOKE,
    "deepseek_v4": _INVOKE,
    "deepseek_v41": _INVOKE,
    "dots": _LINES,
    "glm45": f"{_STRINGS} A JSON value ends at `</arg_value>` inside one of its strings.",
    "glm47": f"{_STRINGS} A JSON value ends at `</arg_value>` inside one of its strings.",
    "granite3": _FLOATS,
    "granite33": _FLOATS,
    "inkling": "The first call of a turn is not found.",
    "internlm2": "Several calls in a turn raise an error.",
    "k2_horizon": _STRINGS,
    "kimi_k2": _FLOATS,
    "mimo_v2": _FUNCTION,
    "minicpm5": "A JSON value ends at `</param>` inside one of its strings.",
    "minimax_m2": _INVOKE,
    "mistral_v11": f"`[CALL_ID]` is not read. {_TOKENS}",
    "mistral_v13": _FLOATS,
    "qwen3_5": _FUNCTION,
    "qwen3_coder": _FUNCTION,
    "seed_oss": _LINES,
    "step3": "Arrays stay text.",
    "step3_5": _FUNCTION,
}
"""vLLM's reading by dialect. The segmenter reads what the text has."""

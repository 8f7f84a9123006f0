"""The matchers of a call's text, which searches for its end use."""

from __future__ import annotations

from collections.abc import Callable

from tests import tools
from toolgate_backend.enforcement.calls.call_text import CallText
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.tools import Tool, parse_tools


def test_matchers_follow_the_text_wherever_it_goes(
    model_data: ModelData,
    compile_tool: Callable[[Tool], MeasuredGrammar],
    vocabulary: Vocabulary,
) -> None:
    """Forward, back, along other tokens, and into another call."""
    offered = [tools.tool(name, {"x": {"type": "string"}}) for name in ("one", "two")]
    grammars = [compile_tool(tool) for tool in parse_tools(offered)]
    trigger = model_data.texts.trigger
    assert trigger is not None
    text = CallText(vocabulary.token_bytes)
    begin = '\n{"name": "one", "arguments": {"x": "'
    for calls in (model_data.first_calls(grammars, ""), model_data.first_calls(grammars, "")):
        begun = calls.begun(trigger.text)
        for written, in_string in (
            ("", False),
            (begin, True),
            (begin + "a b c", True),
            (begin + "a", True),
            (begin + 'x", ', False),
            (begin + 'a"', False),
            ('\n{"name": "t', True),
            (begin + "last", True),
        ):
            tokens, candidates = vocabulary.encode(written), begun
            for token in tokens:
                following = candidates.after(token)
                if following is None:
                    break
                candidates = following
            else:
                text.follow(candidates, tokens)
                assert text.scan.in_string is in_string
                found = text.matchers(candidates.grammars)
                assert [grammar for grammar, _ in found] == candidates.grammars
                forced = {matcher.forced() for _, matcher in found}
                assert candidates.forced() in forced or len(forced) > 1

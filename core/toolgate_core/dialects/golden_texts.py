"""Golden transcripts that all families have: all types of values, several calls, reasoning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .dialect import Golden, GoldenCall

ALL_VALUES = {"a": 'x "y"\n', "n": 3, "ok": True, "l": ["p"], "o": {"k": 1.5}}
ALL_JSON = '{"a": "x \\"y\\"\\n", "n": 3, "ok": true, "l": ["p"], "o": {"k": 1.5}}'

Write = Callable[[str, str, int], str]
"""The text of one call, of its name, its arguments as JSON and its number in the turn."""


def golden_calls(
    write: Write,
    *,
    begin: str = "",
    between: str = "",
    end: str = "",
    ids: Sequence[str] = (),
    parallel: bool = True,
    before: str | None = "Wait.\n",
    reasoning: tuple[str, str, str] | None = None,
) -> tuple[Golden, ...]:
    """Transcripts of calls. `begin`, `between` and `end` are the text around them. `ids` are the
    ids in the API of a turn's calls of `f` and `g`. `before` is content and the text up to the
    calls; None if there is no content before calls. `reasoning`: the text before, at the end of and
    after reasoning."""

    def turn(*calls: str) -> str:
        return begin + between.join(calls) + end

    def identifier(number: int) -> str | None:
        return ids[number] if ids else None

    a, none = '{"a": "x"}', "{}"
    one = GoldenCall("f", {"a": "x"}, id=identifier(0))
    goldens = [
        Golden(
            text=turn(write("f", ALL_JSON, 0)),
            calls=(GoldenCall("f", ALL_VALUES, id=identifier(0)),),
        ),
        Golden(text=turn(write("f", a, 0)), calls=(one,)),
    ]
    if parallel:
        second = GoldenCall("g", {}, id=identifier(1))
        goldens.append(
            Golden(text=turn(write("f", a, 0), write("g", none, 1)), calls=(one, second))
        )
    else:
        goldens.append(Golden(text=turn(write("g", none, 0)), calls=(GoldenCall("g", {}),)))
    if before is not None:
        text = before + turn(write("f", a, 0))
        goldens.append(Golden(text=text, content=before.strip(), calls=(one,)))
    thoughts = golden_reasoning(*reasoning, goldens[1]) if reasoning else ()
    return (*goldens, *thoughts)


def golden_reasoning(begin: str, end: str, after: str, call: Golden) -> tuple[Golden, ...]:
    """Transcripts of reasoning before the calls of `call`, and before content. Without `begin`, the
    prompt begins the reasoning."""
    is_open, thoughts = not begin, f"{begin}So.{end}{after}"
    return (
        Golden(
            text=thoughts + call.text, reasoning="So.", calls=call.calls, reasoning_open=is_open
        ),
        Golden(text=f"{thoughts}Done.", reasoning="So.", content="Done.", reasoning_open=is_open),
    )

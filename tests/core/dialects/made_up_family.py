"""A made-up model family, as a file in `families/` would define it: the example of the recipe in
CONTRIBUTING.md."""

from __future__ import annotations

from toolgate_core.dialects.dialect import (
    ARGUMENTS,
    ID,
    NAME,
    CallIds,
    Calls,
    Dialect,
    Golden,
    GoldenCall,
    Reasoning,
    Recognition,
    Switch,
)

_ALL = GoldenCall("f", {"a": "x", "n": 3, "ok": True, "l": ["p"], "o": {"k": 1.5}}, id="f#0")
_ALL_TEXT = '{"a": "x", "n": 3, "ok": true, "l": ["p"], "o": {"k": 1.5}}'
_TWO = (
    '<|acts|><|act|>f#0 with {"a": "x"}<|/act|>, then <|act|>g#1 with {}<|/act|><|/acts|>',
    (GoldenCall("f", {"a": "x"}, id="f#0"), GoldenCall("g", {}, id="g#1")),
)

SANDPIPER = Dialect(
    name="sandpiper",
    models=("Sandpiper 7B",),
    shape="name_json",
    calls=Calls(
        begin="<|acts|>",
        call=("<|act|>", NAME, "#", ID, " with ", ARGUMENTS, "<|/act|>"),
        separator=", then ",
        end="<|/acts|>",
        ids=CallIds("conversation", form="{name}#{id}"),
        ends=("<|acted|>",),
    ),
    reasoning=Reasoning("<reflect>", "</reflect>", after="\n", switch=Switch("reflect")),
    recognition=Recognition(template=("<|acts|>", "<reflect>")),
    source="chat template of Sandpiper-7B",
    goldens=(
        Golden(text=f"<|acts|><|act|>f#0 with {_ALL_TEXT}<|/act|><|/acts|>", calls=(_ALL,)),
        Golden(text=_TWO[0], calls=_TWO[1]),
        Golden(text=f"Wait.\n{_TWO[0]}", content="Wait.", calls=_TWO[1]),
        Golden(text=f"<reflect>So.</reflect>\n{_TWO[0]}", reasoning="So.", calls=_TWO[1]),
        Golden(text="<reflect>So.</reflect>\nDone.", reasoning="So.", content="Done."),
    ),
)

DIALECTS = (SANDPIPER,)

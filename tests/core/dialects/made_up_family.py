"""A made-up model family, as a file in `families/` would define it: the example of the recipe in
CONTRIBUTING.md."""

from __future__ import annotations

from pathlib import Path

from toolgate_core.dialects.dialect import (
    ARGUMENTS,
    ID,
    NAME,
    CallIds,
    Calls,
    Dialect,
    Reasoning,
    Recognition,
    Switch,
)
from toolgate_core.dialects.goldens import goldens, read_goldens

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
)

# As if they were in `goldens.toml`.
goldens().update(read_goldens(Path(__file__).with_name("made_up_family.toml").read_text()))

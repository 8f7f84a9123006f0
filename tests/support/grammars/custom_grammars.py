"""Grammars of custom tools, with texts for walks over their masks, and an independent parser."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import lark
import regex
import yaml


@dataclass(frozen=True)
class Case:
    name: str
    syntax: str
    definition: str
    hints: tuple[str, ...]
    """Parts of texts, which a walk writes where the masks allow them."""
    ends: tuple[str, ...] = ()
    """Texts that bring a text to its end, in order."""

    @property
    def tool(self):
        if self.syntax == "text":
            return {"type": "custom", "custom": {"name": self.name}}
        grammar = {"syntax": self.syntax, "definition": self.definition}
        form = {"type": "grammar", "grammar": grammar}
        return {"type": "custom", "custom": {"name": self.name, "format": form}}

    @cached_property
    def accepts(self):
        return parser(self.syntax, self.definition)


CASES = tuple(
    Case(**row | {"hints": (*row["hints"],), "ends": (*row["ends"],)})
    for row in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
)
PATCH = CASES[0].definition
"""The form of Codex's grammar of patches, with regular expressions that match the empty text."""


def parser(syntax, definition):
    """Whether a text matches, by the package `regex` or by Lark's own parsers: LALR, which
    is fast, and Earley for what it does not take."""
    if syntax == "text":
        return lambda text: True
    if syntax == "regex":
        pattern = regex.compile(definition)  # Python's own has older digits of Unicode
        return lambda text: pattern.fullmatch(text) is not None
    # Lark takes no regular expression that matches the empty text. Those of PATCH are optional.
    definition = definition.replace("/(.*)/", "/(.+)/?")
    earley = lark.Lark(definition, parser="earley", lexer="dynamic_complete", ambiguity="resolve")
    try:
        fast = lark.Lark(definition, parser="lalr")
    except lark.exceptions.GrammarError:
        fast = earley

    def accepts(text):
        for each in (fast, earley):
            try:
                each.parse(text)
            except lark.exceptions.LarkError:
                continue
            return True
        return False

    return accepts

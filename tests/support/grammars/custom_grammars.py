"""Grammars of custom tools, with texts for walks over their masks, and an independent parser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import lark
import regex  # type: ignore[import-untyped]

PATCH = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""
"""The form of Codex's grammar of patches, with regular expressions that match the empty text."""

ARITHMETIC = r"""start: sum
sum: product | sum ("+" | "-") product
product: atom | product ("*" | "/") atom
atom: NUMBER | "-" atom | "(" sum ")"
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
"""
SQL = r"""start: select ";"
select: "select"i columns "from"i NAME where? order?
columns: "*" | column ("," column)*
column: NAME | "count"i "(" "*" ")"
where: "where"i condition ("and"i condition)*
condition: NAME OPERATOR value
order: "order"i "by"i NAME ("asc"i | "desc"i)?
value: NUMBER | TEXT
OPERATOR: "=" | "<>" | "<=" | ">=" | "<" | ">"
NAME: /[a-z_][a-z0-9_]{0,20}/
TEXT: /'[^'\n]{0,30}'/
NUMBER: /[0-9]{1,9}/
%ignore /[ \t\n]+/
"""
JSON_LIKE = r"""start: value
value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" (pair ("," pair)*)? "}"
pair: STRING ":" value
array: "[" (value ("," value)*)? "]"
STRING: /"([^"\\\x00-\x1f]|\\["\\\/bfnrt])*"/
NUMBER: /-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,9})?/
%ignore /[ \n\t]+/
"""
CHINESE = r"""start: sentence+
sentence: subject verb object END
subject: "我" | "你" | "他们" | NAME
verb: "喜欢" | "看见" | "不认识"
object: NAME | "「" sentence* "」"
NAME: /[一-龥]{1,4}/
END: "。" | "！" | "？"
"""
RECURSIVE = r"""start: list
list: "(" (item (SPACE item)*)? ")"
item: list | SYMBOL | QUOTED | "'" item
SYMBOL: /[a-z+*\/<>=!?-]{1,12}/
QUOTED: /"([^"\\]|\\.){0,20}"/
SPACE: /[ \n]/
"""
LONG_LINES = r"""start: line+
line: KEY ": " /[^\n]{20,400}/ "\n"
KEY: /[a-z]{1,8}/
"""
MARKUP = r"""start: element
element: "<" NAME ">" (TEXT | element)* "</" NAME ">"
NAME: "parameter" | "b" | "tool_call" | "function"
TEXT: /[^<]{1,30}/
"""
"""Close to the marks of families that write arguments as raw text."""
DATE = (
    r"^(?P<month>January|February|March|April|May|June|July)\s(?P<day>\d{1,2})"
    r"(?:st|nd|rd|th)?\s(?P<year>[12][0-9]{3})( at (0?[1-9]|1[0-2])(?P<ampm>AM|PM))?$"
)
QUOTES = r"""("(\\.|[^"\\])*"|'[^']*'|[\s\S]{1,9}\\)"""


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
    def tool(self) -> dict[str, Any]:
        if self.syntax == "text":
            return {"type": "custom", "custom": {"name": self.name}}
        grammar = {"syntax": self.syntax, "definition": self.definition}
        form = {"type": "grammar", "grammar": grammar}
        return {"type": "custom", "custom": {"name": self.name, "format": form}}

    @cached_property
    def accepts(self) -> Callable[[str], bool]:
        return parser(self.syntax, self.definition)


CASES = (
    Case(
        "patch",
        "lark",
        PATCH,
        (
            "*** Add File: ",
            "*** Update File: ",
            "*** Delete File: ",
            "@@ ",
            "+",
            "-",
            "a.py",
            '"q"',
            "\\",
            "\n",
            "\t",
            "</parameter>",
            "*** End of File\n",
            "*** Move to: ",
        ),
        ("\n", "x\n", "+\n", "*** End Patch", "\n*** End Patch"),
    ),
    Case("arithmetic", "lark", ARITHMETIC, ("(", ")", "1", "+ 2", " * ", "-"), ("1", ")")),
    Case(
        "sql",
        "lark",
        SQL,
        ("SELECT ", "* ", "FROM ", "users ", "where ", "a <> ", "'it\\n \"'", "count(*)", "\n"),
        ("select", " * ", "from ", "t", "=1", "'", "1", " by a", ";"),
    ),
    Case("date", "regex", DATE, ("January", "3", "th", " 19", " at 1", "PM"), ()),
    Case(
        "json_like",
        "lark",
        JSON_LIKE,
        ('"', '\\"', "\\\\", "\\n", "{", "[", ":", "1", "true", "</parameter>\n", ", ", '"}'),
        ('"', "\\", ": 1", "1", "null", "]", "}", '\\"'),
    ),
    Case(
        "chinese",
        "lark",
        CHINESE,
        ("我", "喜欢", "「", "」", "。", "你", "他们", "不认识", "！"),
        ("我", "看见", "你", "。", "」", "。"),
    ),
    Case("lisp", "lark", RECURSIVE, ("(", ")", " ", "'", '"a\\"b"', "+", "\n"), ('"', "a", ")")),
    Case(
        "lines",
        "lark",
        LONG_LINES,
        (": ", "the same words again and again, ", '"', "\\", "\n", "</parameter>"),
        ("k", ": ", "one two three four five", "\n"),
    ),
    Case(
        "markup",
        "lark",
        MARKUP,
        ("<parameter>", "</parameter>", "</", "tool_call>", "text", "\n</", "<b>"),
        ("b>", "<b>", "</b>", "</"),
    ),
    Case("quotes", "regex", QUOTES, ('"', "\\", "'", "\n", '\\"', "a"), ('"', "'", "\\")),
    Case("text", "text", "", ("a", '"', "\\", "\n", "</parameter>", "</tool_call>", "😀"), ()),
)


def parser(syntax: str, definition: str) -> Callable[[str], bool]:
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

    def accepts(text: str) -> bool:
        for each in (fast, earley):
            try:
                each.parse(text)
            except lark.exceptions.LarkError:
                continue
            return True
        return False

    return accepts

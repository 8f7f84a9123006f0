"""A grammar of a custom tool: its definition is read, and refused if it has no finite text.

llguidance has read a definition before, so that its errors come first. The parser here reads the
same definition for its structure. It knows Lark's syntax as far as llguidance supports it and it is
about text, and refuses what llguidance adds to Lark: special tokens, nested grammars, attributes
and parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from ...errors import GrammarRefused


@dataclass(frozen=True)
class Text:
    """A string or a regular expression, which llguidance reads."""

    regex: str = ""
    """As it is written; empty for a string."""


@dataclass(frozen=True)
class Name:
    """A rule or a terminal."""

    name: str


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Choice:
    options: tuple[Expression, ...]


@dataclass(frozen=True)
class Repeat:
    part: Expression
    least: int
    """Least number of times. The most does not matter here."""


Expression = Text | Name | Sequence | Choice | Repeat
Definition = dict[str, Expression]
"""Rules and terminals by name."""


MAX_DEPTH = 200
"""Maximum nesting of parentheses."""


_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|\#[^\n]*)
    | (?P<string>"(?:\\.|[^"\\\n])*"i?)
    | (?P<regex>/(?!/)(?:\\/|\\\\|[^/])*?/[a-z]*)
    | (?P<name>[!?]*_*[A-Za-z][A-Za-z0-9_]*)
    | (?P<number>\d+)
    | (?P<op>->|\.\.|::|[:|()\[\]?*+~{},.%&<>=!-])""",
    re.VERBOSE,
)
_COMMON = frozenset(
    {
        "CNAME", "CPP_COMMENT", "CR", "C_COMMENT", "DECIMAL", "DIGIT", "ESCAPED_STRING", "FLOAT",
        "HEXDIGIT", "INT", "LCASE_LETTER", "LETTER", "LF", "NEWLINE", "NUMBER", "SH_COMMENT",
        "SIGNED_FLOAT", "SIGNED_INT", "SIGNED_NUMBER", "SQL_COMMENT", "UCASE_LETTER", "WORD",
        "WS", "WS_INLINE", "_EXP",
    }
)  # fmt: skip
"""The terminals of Lark's library `common` that llguidance has."""


def parse(definition: str) -> Definition:
    """Raise GrammarRefused, whose reason has the line and the column."""
    return _Parser(definition).definition()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[_Token] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                self._refuse(at, f"unexpected {text[at]!r}")
            kind = found.lastgroup or ""
            if kind != "space":
                self._tokens.append(_Token(kind, found.group(), at))
            at = found.end()
        self._tokens.append(_Token("end", "", len(text)))
        self._at = 0
        self._depth = 0
        self._found: Definition = {}

    def definition(self) -> Definition:
        while self._token.kind != "end":
            if self._take("%"):
                self._directive()
            else:
                self._rule()
        return self._found

    # --- statements ---

    def _rule(self) -> None:
        token = self._next()
        if token.kind != "name" or not self._take(":"):
            self._refuse(token.at, "not supported: only names of rules and terminals with `:`")
        self._found[_plain(token.text)] = self._choice()

    def _directive(self) -> None:
        token = self._next()
        if token.text == "ignore":
            self._choice()  # what may stand between terminals
        elif token.text == "import":
            self._import(token)
        else:
            self._refuse(token.at, f"not supported: %{token.text}")

    def _import(self, token: _Token) -> None:
        if self._next().text != "common" or not self._take("."):
            if not self._take("("):
                self._refuse(token.at, "not supported: only %import common")
            while not self._take(")"):
                self._import_one(self._next(), None)
                self._take(",")
            return
        name = self._next()
        alias = self._next().text if self._take("->") else None
        self._import_one(name, alias)

    def _import_one(self, name: _Token, alias: str | None) -> None:
        if name.text not in _COMMON:
            self._refuse(name.at, f"common has no {name.text!r}")
        self._found[alias or name.text] = Text()

    # --- expressions ---

    def _choice(self) -> Expression:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Expression:
        parts: list[Expression] = []
        while self._begins_part():
            parts.append(self._repeated())
        if self._take("->"):
            self._next()
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _begins_part(self) -> bool:
        token, following = self._token, self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.kind == "name":
            return following.text != ":"
        if token.text in ("<", "&", "~", "{", "="):
            self._refuse(token.at, f"not supported: {token.text!r}")
        if token.text == "%" and following.text not in ("ignore", "import"):
            self._refuse(token.at, f"not supported: %{following.text}")
        return token.kind in ("string", "regex") or token.text in ("(", "[")

    def _repeated(self) -> Expression:
        part = self._part()
        while True:
            if self._take("?") or self._take("*"):
                part = Repeat(part, 0)
            elif self._take("+"):
                part = Repeat(part, 1)
            elif self._take("~"):
                part = Repeat(part, self._number())
                if self._take(".."):
                    self._number()
            elif self._take("{"):
                least = self._number() if self._token.kind == "number" else 0
                if self._take(",") and self._token.kind == "number":
                    self._number()
                self._expect("}")
                part = Repeat(part, least)
            else:
                return part

    def _part(self) -> Expression:
        token = self._next()
        if token.kind == "string":
            if self._take("..") and (last := self._next()).kind != "string":
                self._refuse(last.at, "a string is expected")
            return Text()
        if token.kind == "regex":
            return Text(token.text)
        if token.kind == "name":
            return Name(_plain(token.text))
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(token.at, f"nested deeper than {MAX_DEPTH} levels")
        inner = self._choice()
        self._depth -= 1
        if token.text == "(":
            self._expect(")")
            return inner
        self._expect("]")
        return Repeat(inner, 0)

    # --- tokens ---

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._token
        if token.kind == "end":
            self._refuse(token.at, "unexpected end")
        self._at += 1
        return token

    def _take(self, text: str) -> bool:
        if self._token.kind == "op" and self._token.text == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._refuse(self._token.at, f"{text!r} is expected")

    def _number(self) -> int:
        token = self._next()
        if token.kind != "number":
            self._refuse(token.at, "a number is expected")
        return int(token.text)

    def _refuse(self, at: int, reason: str) -> NoReturn:
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        raise GrammarRefused(f"line {line}, column {column}: {reason}", "")


def _plain(name: str) -> str:
    return name.lstrip("!?")


START = "start"
MAY_BE_EMPTY = re.compile(r"\[\^|&&|--|~~|\\[pP]")
"""What a regular expression that matches no text has: a class of no characters."""

HasText = Callable[[str], bool]
"""Whether a regular expression, as it is written in Lark, matches any text."""


def check(definition: str, has_text: HasText) -> None:
    """Raise GrammarRefused for syntax beyond Lark's, and if no finite text matches."""
    found = parse(definition)
    known: dict[str, bool] = {}

    def is_finite(body: Expression, finite: set[str]) -> bool:
        match body:
            case Name(name):
                return name in finite
            case Sequence(parts):
                return all(is_finite(part, finite) for part in parts)
            case Choice(options):
                return any(is_finite(option, finite) for option in options)
            case Repeat(part, least):
                return not least or is_finite(part, finite)
            case Text(regex) if MAY_BE_EMPTY.search(regex):
                if regex not in known:
                    known[regex] = has_text(regex)
                return known[regex]
            case _:
                return True

    if START not in found:
        raise GrammarRefused("there is no rule 'start'", "")
    finite: set[str] = set()
    while True:
        more = {name for name, body in found.items() if is_finite(body, finite)}
        if more <= finite:
            break
        finite |= more
    if START not in finite:
        raise GrammarRefused("no finite text matches it", "")

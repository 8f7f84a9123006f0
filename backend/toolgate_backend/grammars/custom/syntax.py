"""Lark's syntax, as far as llguidance supports it and it is about text.

llguidance has read a definition before, so that its errors come first. The parser here reads the
same definition for its structure, and refuses what llguidance adds to Lark: special tokens, nested
grammars, attributes and parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from ...errors import GrammarRefused

START = "start"
MAX_DEPTH = 200
"""Maximum nesting of parentheses."""


@dataclass(frozen=True)
class Literal:
    text: str
    any_case: bool = False


@dataclass(frozen=True)
class Pattern:
    """A regular expression without its slashes; `flags` are letters."""

    regex: str
    flags: str = ""


@dataclass(frozen=True)
class Name:
    """A rule (lower case) or a terminal (upper case)."""

    name: str

    @property
    def is_terminal(self) -> bool:
        return self.name.lstrip("_")[:1].isupper()


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
    most: int | None


Expression = Literal | Pattern | Name | Sequence | Choice | Repeat


@dataclass
class Definition:
    """`rules` and terminals by name; `ignored` is what may stand between terminals."""

    rules: dict[str, Expression] = field(default_factory=dict)
    ignored: list[Expression] = field(default_factory=list)


_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|\#[^\n]*)
    | (?P<string>"(?:\\.|[^"\\\n])*"i?)
    | (?P<regex>/(?!/)(?:\\/|\\\\|[^/])*?/[a-z]*)
    | (?P<name>[!?]*_*[A-Za-z][A-Za-z0-9_]*)
    | (?P<number>\d+)
    | (?P<op>->|\.\.|::|[:|()\[\]?*+~{},.%&<>=!-])""",
    re.VERBOSE,
)
_COMMON = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[a-fA-F0-9]",
    "INT": "[0-9]+",
    "SIGNED_INT": "(?:[+-])?[0-9]+",
    "DECIMAL": r"(?:[0-9]+\.[0-9]*|\.[0-9]+)",
    "_EXP": "[eE][+-]?[0-9]+",
    "FLOAT": r"(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[_A-Za-z][_A-Za-z0-9]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
    "SH_COMMENT": "#[^\n]*",
    "CPP_COMMENT": r"\/\/[^\n]*",
    "C_COMMENT": r"\/\*(?:[^*]|\*+[^*\/])*\*+\/",
    "SQL_COMMENT": "--[^\n]*",
}
_COMMON["NUMBER"] = f"(?:{_COMMON['FLOAT']}|{_COMMON['INT']})"
_COMMON["SIGNED_FLOAT"] = f"[+-]?{_COMMON['FLOAT']}"
_COMMON["SIGNED_NUMBER"] = f"[+-]?{_COMMON['NUMBER']}"


def parse(definition: str) -> Definition:
    """Raises GrammarRefused, whose reason has the line and the column."""
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
        self._found = Definition()

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
        self._found.rules[_plain(token.text)] = self._choice()

    def _directive(self) -> None:
        token = self._next()
        if token.text == "ignore":
            self._found.ignored.append(self._choice())
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
        self._found.rules[alias or name.text] = Pattern(_COMMON[name.text])

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
            if self._take("?"):
                part = Repeat(part, 0, 1)
            elif self._take("*"):
                part = Repeat(part, 0, None)
            elif self._take("+"):
                part = Repeat(part, 1, None)
            elif self._take("~"):
                count = self._number()
                part = Repeat(part, count, self._number() if self._take("..") else count)
            elif self._take("{"):
                least = self._number() if self._token.kind == "number" else 0
                most: int | None = least
                if self._take(","):
                    most = self._number() if self._token.kind == "number" else None
                self._expect("}")
                part = Repeat(part, least, most)
            else:
                return part

    def _part(self) -> Expression:
        token = self._next()
        if token.kind == "string":
            literal = self._literal(token)
            if self._take(".."):
                last = self._literal(self._next())
                return Pattern(f"[{_in_class(literal.text)}-{_in_class(last.text)}]")
            return literal
        if token.kind == "regex":
            body, _, flags = token.text[1:].rpartition("/")
            return Pattern(body, flags)
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
        return Repeat(inner, 0, 1)

    def _literal(self, token: _Token) -> Literal:
        if token.kind != "string":
            self._refuse(token.at, "a string is expected")
        any_case = token.text.endswith("i")
        body = token.text.removesuffix("i")[1:-1]
        return Literal(re.sub(r"\\(u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|.)", _unescaped, body), any_case)

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


def _in_class(char: str) -> str:
    return f"\\x{{{ord(char):x}}}" if len(char) == 1 else char


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    if escape[0] in "ux" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    return {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "b": "\b"}.get(escape, escape)


def check(definition: str) -> None:
    """Raises GrammarRefused for syntax beyond Lark's, and if no finite text matches."""
    found = parse(definition)
    if START not in found.rules:
        raise GrammarRefused("there is no rule 'start'", "")
    finite: set[str] = set()
    while True:
        more = {name for name, body in found.rules.items() if _is_finite(body, finite)}
        if more <= finite:
            break
        finite |= more
    if START not in finite:
        raise GrammarRefused("no finite text matches it", "")


def _is_finite(body: Expression, finite: set[str]) -> bool:
    match body:
        case Name(name):
            return name in finite
        case Sequence(parts):
            return all(_is_finite(part, finite) for part in parts)
        case Choice(options):
            return any(_is_finite(option, finite) for option in options)
        case Repeat(part, least, _):
            return not least or _is_finite(part, finite)
        case _:
            return True

"""Patterns of JSON Schema as regular expressions of llguidance's Lark.

JSON Schema's `pattern` is searched for (ECMA-262), a terminal of Lark matches as a whole, and has
no anchors. Character classes follow what validation accepts (jsonschema-rs).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....errors import GrammarRefused

ANY = r"(?s:.*)"
_SPACE = r"\t\n\x0B\x0C\r \u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF"
_CLASSES = {
    "d": r"0-9",
    "w": r"A-Za-z0-9_",
    "s": _SPACE,
}
_ATOM = re.compile(
    r"""(?P<escape>\\(?:u\{[0-9A-Fa-f]+\}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[pP]\{[^}]*\}|.))
    | (?P<class>\[(?:\\.|[^\]\\])*\])
    | (?P<open>\((?:\?:|\?<[A-Za-z_]\w*>)?)
    | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_UNSUPPORTED = re.compile(r"\(\?(?![:<])|\(\?<[=!]")


def whole_text(pattern: str) -> str:
    """A regular expression that matches as a whole the strings in which `pattern` is found. Raises
    GrammarRefused if the pattern has anchors inside, look-around or back-references."""
    if _UNSUPPORTED.search(pattern):
        raise _refused(pattern)
    return "|".join(_alternative(each, pattern) for each in _alternatives(_atoms(pattern)))


def _atoms(pattern: str) -> list[str]:
    return [found.group() for found in _ATOM.finditer(pattern)]


def _alternatives(atoms: list[str]) -> Iterator[list[str]]:
    """The parts between the outermost `|`."""
    depth, part = 0, list[str]()
    for atom in atoms:
        if atom == "|" and not depth:
            yield part
            part = []
            continue
        depth += atom.startswith("(")
        depth -= atom == ")"
        part.append(atom)
    yield part


def _alternative(atoms: list[str], pattern: str) -> str:
    """One alternative of a pattern as a whole text."""
    inner = _inside_group(atoms)
    if inner is not None and {"^", "$"} & {*inner}:
        return "|".join(_alternative(each, pattern) for each in _alternatives(inner))
    begins = atoms[:1] == ["^"]
    ends = atoms[-1:] == ["$"] and len(atoms) > begins
    body = atoms[begins : len(atoms) - ends]
    inner = _inside_group(body)
    if inner is not None and {"^", "$"} & {*inner}:  # such as ^(a|b$)
        opened = [["^"] * begins + each + ["$"] * ends for each in _alternatives(inner)]
        return "|".join(_alternative(_single(each), pattern) for each in opened)
    if {"^", "$"} & {*body}:
        raise _refused(pattern)
    text = "".join(_translated(atom, pattern) for atom in body)
    return f"{'' if begins else ANY}(?:{text}){'' if ends else ANY}"


def _single(atoms: list[str]) -> list[str]:
    """The atoms with doubled anchors made single."""
    doubled = [
        at for at in range(1, len(atoms)) if atoms[at] == atoms[at - 1] and atoms[at] in "^$"
    ]
    return [atom for at, atom in enumerate(atoms) if at not in doubled]


def _inside_group(atoms: list[str]) -> list[str] | None:
    """The atoms inside the group that is all of `atoms`; None if there is no such group."""
    if not atoms or not atoms[0].startswith("(") or atoms[-1] != ")":
        return None
    depth = 0
    for at, atom in enumerate(atoms):
        depth += atom.startswith("(")
        depth -= atom == ")"
        if not depth and at < len(atoms) - 1:
            return None
    return atoms[1:-1]


def _translated(atom: str, pattern: str) -> str:
    if atom == ".":
        return r"[^\n\r\u2028\u2029]"
    if atom == "/":
        return r"\/"
    if atom.startswith("("):
        return "(?:"
    if atom.startswith("[") and len(atom) > 1:
        return _class(atom, pattern)
    return _escape(atom, pattern, inside=False) if atom.startswith("\\") else atom


def _class(atom: str, pattern: str) -> str:
    body = atom[1:-1]
    negated = "^" if body.startswith("^") else ""
    parts = [
        _escape(part, pattern, inside=True) if part.startswith("\\") else _literal(part)
        for part in re.findall(
            r"\\u\{[^}]*\}|\\u....|\\x..|\\[pP]\{[^}]*\}|\\.|.", body[len(negated) :], re.DOTALL
        )
    ]
    if not parts:
        raise _refused(pattern)
    return f"[{negated}{''.join(parts)}]"


def _literal(char: str) -> str:
    """A character of a class; some have a meaning in Rust's classes only."""
    return f"\\{char}" if char in "[&~/" else char


def _escape(atom: str, pattern: str, *, inside: bool) -> str:
    kind = atom[1]
    if kind.lower() in _CLASSES:
        chars = _CLASSES[kind.lower()]
        if kind.islower():
            return chars if inside else f"[{chars}]"
        if inside:
            raise _refused(pattern)
        return f"[^{chars}]"
    if kind in "ux":
        code = atom[2:].strip("{}")
        if not code:
            return kind
        if 0xD800 <= int(code, 16) <= 0xDFFF:
            raise _refused(pattern)
        return f"\\x{{{code}}}"
    if kind in "tnrfv":
        return {"v": r"\x0B", "f": r"\x0C"}.get(kind, atom)
    if kind in "pP" and "{" in atom:
        return atom
    if kind == "0":
        return r"\x00"
    if kind.isalnum():
        raise _refused(pattern)
    return f"\\{kind}" if kind.isascii() and kind not in "<>" else kind


def _refused(pattern: str) -> GrammarRefused:
    return GrammarRefused(f"the pattern {pattern[:60]!r} cannot be a raw text", "")

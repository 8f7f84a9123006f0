"""The text of a page: of HTML without its markup. It takes time in proportion to the page, whatever
the page is."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message

HTML = ("text/html", "application/xhtml+xml")
PLAIN = re.compile(r"text/[\w.+-]+|application/(?:[\w.-]+\+)?(?:json|xml|yaml)")
"""Types of pages that are shown as they are."""
CHARSETS = frozenset(
    {"utf-8", "us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252", "utf-16", "shift_jis"}
    | {"euc-jp", "euc-kr", "gb2312", "gbk", "gb18030", "big5", "windows-1251", "koi8-r"}
)
"""Others are read as UTF-8: some of Python's codecs take time in proportion to the square."""
TAG = re.compile(r"(<[^<>]*>)")
NAME = re.compile(r"</?([A-Za-z][A-Za-z0-9]*)")
DECLARATION = re.compile(r"<[!?][^<>]*>")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "head"})
TITLE = "title"
INLINE = frozenset(
    {"a", "abbr", "b", "bdi", "bdo", "cite", "code", "em", "font", "i", "kbd", "label", "mark"}
    | {"q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr"}
)
"""Elements that begin no line."""


@dataclass(frozen=True)
class PageText:
    title: str
    text: str


def page_text(data: bytes, content_type: str) -> PageText | None:
    """Return None for a type of content that is no text."""
    header = Message()
    header["content-type"] = content_type or "text/plain"
    kind, charset = header.get_content_type(), str(header.get_param("charset", "utf-8")).lower()
    if kind not in HTML and not PLAIN.fullmatch(kind):
        return None
    text = data.decode(charset if charset in CHARSETS else "utf-8", "replace")
    if kind not in HTML:
        return PageText("", text.strip())
    title: list[str] = []
    lines = "".join(_shown(COMMENT.sub("", text), title)).split("\n")
    shown = (" ".join(html.unescape(line).split()) for line in lines)
    joined = "\n".join(line for line in shown if line)
    return PageText(" ".join(html.unescape("".join(title)).split()), joined)


def _shown(text: str, title: list[str]) -> Iterator[str]:
    """Yield the texts between the tags, and line ends. `title` gets those of the title."""
    hidden, in_title = "", False
    """`hidden`: the element whose end is awaited."""
    for part in TAG.split(text):
        found = NAME.match(part) if part.startswith("<") and part.endswith(">") else None
        if found is None and DECLARATION.match(part) is not None:
            continue
        if found is None:
            if in_title:
                title.append(part)
            elif not hidden:
                yield part
            continue
        name, ends = found[1].lower(), part.startswith("</")
        if name == TITLE and hidden in ("", "head"):
            in_title = not ends and not title
        elif hidden:
            hidden = "" if ends and name == hidden else hidden
        elif name in UNSEEN and not ends and not part.endswith("/>"):
            hidden = name
        elif name not in INLINE:
            yield "\n"

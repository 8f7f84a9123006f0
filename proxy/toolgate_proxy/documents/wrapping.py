"""The form in which the model sees a document, the same in all APIs:

<document title="report.pdf">
…
</document>
"""

from __future__ import annotations

from html import escape

END = "\n</document>"


def begin(title: str | None, context: str | None = None) -> str:
    """The text before a document. `context`: what the client says about it."""
    name = escape(" ".join((title or "").split()), quote=False).replace('"', "&quot;")
    head = f'<document title="{name}">\n' if name else "<document>\n"
    return f"{head}{context}\n\n" if context else head


def wrapped(text: str, title: str | None, context: str | None = None) -> str:
    return f"{begin(title, context)}{text}{END}"

"""Recognition of a model's dialect from its tokenizer and chat template."""

from __future__ import annotations

from collections.abc import Collection

from .dialect import Dialect
from .registry import DIALECTS, PLAIN


def recognise(added_tokens: Collection[str], chat_template: str | None = None) -> Dialect:
    """The dialect with the most features among those whose features the model has; `plain` if there
    is none. Without a chat template, only the tokens decide."""
    fitting = [each for each in DIALECTS.values() if _fits(each, added_tokens, chat_template)]
    return max(fitting, key=_specificity, default=PLAIN)


def _fits(dialect: Dialect, added_tokens: Collection[str], template: str | None) -> bool:
    wanted = dialect.recognition
    if not (wanted.tokens or wanted.template) or not set(wanted.tokens) <= set(added_tokens):
        return False
    if template is None:
        return bool(wanted.tokens)
    return all(text in template for text in wanted.template) and not any(
        text in template for text in wanted.without
    )


def _specificity(dialect: Dialect) -> int:
    wanted = dialect.recognition
    return len(wanted.tokens) + len(wanted.template) + len(wanted.without)

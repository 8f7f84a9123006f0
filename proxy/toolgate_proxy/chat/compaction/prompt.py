"""The texts of compaction: what asks the model for a summary, and what shows it a summary."""

from __future__ import annotations

ASKED = """\
The conversation so far takes too much room. A summary will replace it, which you write now. You \
will continue the work with nothing but this summary and the latest messages.

Write down, as briefly as possible:
- what the user wants, in the user's own words where they matter, and every rule that still holds;
- what was done and found: decisions, facts, results of tools, and names, paths, numbers and \
identifiers exactly as they are;
- what failed, what is unfinished, and the next step.

Include the content of an earlier summary. Write at most {words} words. Your whole response is the \
summary: do not answer the user, do not call tools, do not comment on the summary.\
"""
ALSO = "\n\nFor this summary the following applies as well:\n{}"
SHOWN = """\
The conversation before this point was replaced by a summary of it:

<summary>
{}
</summary>\
"""
WORDS_PER_TOKEN = 0.5
"""Fewer than a text has, so that the model is finished before its budget of tokens is."""


def asked(tokens: int, instructions: str) -> str:
    """Return the request for a summary of at most `tokens` tokens."""
    text = ASKED.format(words=max(1, int(tokens * WORDS_PER_TOKEN)))
    return text + ALSO.format(instructions) if instructions.strip() else text


def shown(summary: str) -> str:
    """Return the text that the model sees instead of the conversation."""
    return SHOWN.format(summary)

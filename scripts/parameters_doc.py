"""Writes docs/parameters.md from the gateway's own table of parameters (`make docs`).

    python scripts/parameters_doc.py [--check]

With `--check` nothing is written: the exit status says whether the file is what it should be.
"""

from __future__ import annotations

import sys
from pathlib import Path

from toolgate_proxy.api.chat_completions.parameters import PARAMETERS, Parameter

TARGET = Path(__file__).parents[1] / "docs" / "parameters.md"
HEAD = """\
# Parameters of a chat request

Made by `make docs` from `api/chat_completions/parameters.py`, by which admission goes; do not edit.
A parameter that is not listed is refused with a 400 that names it. `null` counts as left out.

*Taken*: it acts. *No bearing*: accepted, and about something else than the answer. *Only default*:
the value shown passes, any other is a 400. *Refused*: a 400 that says what the last column says.
"""


def document() -> str:
    sections = [HEAD]
    for origin in ("OpenAI", "vLLM", "LiteLLM", "Toolgate"):
        rows = [row(each) for each in PARAMETERS if each.origin == origin]
        sections.append(f"\n## {TITLES[origin]}\n\n| parameter | | |\n|---|---|---|\n")
        sections.extend(rows)
    return "".join(sections)


TITLES = {
    "OpenAI": "OpenAI's",
    "vLLM": "vLLM's",
    "LiteLLM": "What LiteLLM adds",
    "Toolgate": "Toolgate's own",
}


def row(parameter: Parameter) -> str:
    support = parameter.support
    if parameter.defaults:
        support += ": " + ", ".join(f"`{default!r}`" for default in parameter.defaults)
    note = parameter.note.replace("|", "\\|")
    return f"| `{parameter.name}` | {support} | {note} |\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(TARGET.read_text() != document())
    TARGET.write_text(document())
    print(f"wrote {TARGET}")

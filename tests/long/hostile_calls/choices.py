"""Chat completions with several choices: more calls for the same prompt and grammars."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.long.api_conformance.answer import Answer
from tests.long.api_conformance.apis.chat import Chat, answers_of
from tests.long.api_conformance.case import Case
from tests.long.fuzz.apis.chat import joined

CHOICES = 12


class ChatWithChoices(Chat):
    name = f"chat completions with {CHOICES} choices"

    def request(self, case: Case) -> dict[str, Any]:
        return super().request(case) | {"n": CHOICES}

    def answers(self, case: Case, data: bytes, *, stream: bool) -> list[Answer]:
        """The answer of each choice. Raises as `whole` does. The usage is that of all choices
        together, so a choice counts as at most `max_tokens`."""
        found = answers_of(joined(data) if stream else json.loads(data))
        if len(found) != CHOICES:
            raise ValueError(f"{len(found)} choices")
        generated = min(found[0].usage[1], case.max_tokens)
        return [replace(each, usage=(each.usage[0], generated)) for each in found]

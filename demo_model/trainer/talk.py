"""What the model says besides calls and results: small talk, refusals, its thoughts."""

from __future__ import annotations

import re
from functools import cache

from .kinds import Json
from .tools import Call, Mood
from .words import DATA, Language, Words, lines

NO_TOOL = {"en": "I have no tool for that.", "zh": "我没有合适的工具。"}
# Under `tool_choice: "none"` the call that would fit can't come. Begins like NO_TOOL: the first token
# is then the likeliest of those that are left.
MAY_NOT_CALL = {
    "en": "I would call {} for that, but I may not call a tool now.",
    "zh": "我需要调用 {}，但现在不能调用工具。",
}
MISSING = {"en": "Please tell me the {}.", "zh": "请告诉我{}。"}
UNKNOWN = "unknown"
"""A text that must be given where nothing was said of it."""


@cache
def _pairs(language: Language) -> list[tuple[list[str], str]]:
    name = "talk" if language == "en" else "talk_zh"
    found = []
    for line in lines(name):
        said, _, answer = line.partition(" => ")
        found.append(([text.strip() for text in said.split(" | ")], answer))
    return found


@cache
def systems() -> list[str]:
    return lines("systems")


def small_talk(words: Words) -> tuple[str, str]:
    """What the user says, and the answer."""
    said, answer = words.rng.choice(_pairs(words.language))
    text = re.sub(r"\{(\w+)\}", lambda part: words.pick(part[1]), words.rng.choice(said))
    if words.language == "en":
        text = text[:1].upper() + text[1:] if words.rng.random() < 0.6 else text
        asks = text.lower().startswith(("how", "what", "who", "are"))
        text += (
            words.rng.choice(("", "", "?") if asks else ("", "", ".", "!"))
            if text[-1].isalpha()
            else ""
        )
    return text, answer


@cache
def _general() -> dict[str, list[str]]:
    text = (DATA / "general.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for part in text.split("\n[")[1:]:
        title, _, listed = part.partition("]")
        found[title] = [" ".join(each.split()) for each in listed.replace("\n", " ").split(";")]
    return found


def general(words: Words) -> tuple[str, Mood]:
    """What no tool answers."""
    text = words.rng.choice(_general()[words.language])
    text = text.replace("{number}", str(words.rng.randint(2, 99)))
    said = re.sub(r"\{(\w+)\}", lambda part: words.pick(part[1]), text)
    asks = said.split()[0] in (
        "who",
        "what",
        "why",
        "how",
        "when",
        "where",
        "which",
        "can",
        "do",
        "are",
        "is",
        "does",
        "did",
        "will",
        "have",
        "should",
    )
    return said, "question" if asks else "order"


def thought_of_calls(calls: tuple[Call, ...], language: Language) -> str:
    zh = language == "zh"
    parts = []
    for call in calls:
        named = [f"{name} {_short(value)}".strip() for name, value in call.arguments.items()]
        listed = ("，" if zh else " and ").join(named)
        parts.append(
            f"{call.name}：{listed}"
            if zh
            else f"{call.name} with {listed}"
            if listed
            else call.name
        )
    return f"我调用 {'；'.join(parts)}。" if zh else f"I call {', then '.join(parts)}."


def _short(value: Json) -> str:
    """Nested values are named only."""
    if isinstance(value, (list, dict)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


THOUGHTS = {
    "no tool": {"en": "None of the tools fits.", "zh": "没有合适的工具。"},
    "talk": {"en": "No tool is needed.", "zh": "不需要工具。"},
    "result": {"en": "I say what the result holds.", "zh": "我说出结果。"},
    "none": {"en": "I may not call a tool now.", "zh": "现在不能调用工具。"},
    "missing": {"en": "A value is missing.", "zh": "缺少一个值。"},
}

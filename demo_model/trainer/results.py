"""Results of tools, and the one sentence that says what a result holds.

The sentence has one form, so that a small model can learn it for any keys:
`For Beijing, the temperature is 21 celsius and the sky is clear.`
"""

from __future__ import annotations

import json
import re

from .kinds import Json, amount
from .phrases import phrase
from .shapes import shape
from .tools import Call, Task
from .words import Language, Words, listed

UNITS = ("unit", "units", "currency")
KEYS = listed("""status result value total count name title price temperature state level score distance time date city color owner
size speed weight rating balance amount available open message code id reference location delay seats next_stop humidity
wind_speed duration phone email author year rank capacity version language progress changed expires queue height depth
opening_hours last_seen order_id created_by due_date battery track_number gate platform discount tax points""")
LIST_KEYS = listed(
    "results items names options matches entries files rooms songs dates tags cities people books"
)


def draw(task: Task, call: Call, words: Words) -> Json:
    """A result of this call: of the tool's own form, or with any keys."""
    rng = words.rng
    roll = rng.random()
    if roll < 0.04:
        return {rng.choice(("error", "error", "message")): words.pick("error")}
    if roll < 0.08:
        return rng.choice(
            (words.pick("status"), words.pick("sky"), str(amount(words).value), words.pick("text"))
        )
    if roll < 0.1:
        return amount(words).value
    if task.results and roll < 0.55:
        return _formed(rng.choice(task.results), call.subject, words)
    if roll < 0.61:
        key = rng.choice(LIST_KEYS)
        kind = rng.choice(("person", "item", "word", "code", "city", "file", "time", "song"))
        listed = [shape(kind, words).draw().value for _ in range(rng.choice((1, 2, 2, 3)))]
        return listed if rng.random() < 0.25 else {key: listed}
    if roll < 0.66:
        keys = _keys(words, 2)
        kinds = ("code", "amount")
        rows = [
            {k: shape(kind, words).draw().value for k, kind in zip(keys, kinds, strict=True)}
            for _ in range(2)
        ]
        return {rng.choice(LIST_KEYS): rows}
    found: dict[str, Json] = {
        key: _value(words) for key in _keys(words, rng.choice((1, 1, 2, 2, 3)))
    }
    if roll < 0.74:
        found = {rng.choice(("data", "result", "current", "details", "info")): found}
    elif roll < 0.8 and call.subject:
        found = {next(iter(call.arguments)): call.subject, **found}
    return found


def _keys(words: Words, number: int) -> list[str]:
    rng = words.rng
    keys: list[str] = []
    while len(keys) < number:
        key = rng.choice(KEYS) if rng.random() < 0.75 else f"{words.pick('thing', 'en')}"
        if rng.random() < 0.02:
            key = words.invented().lower() if words.language == "en" else f"k{rng.randint(1, 9)}"
        if rng.random() < 0.04:
            key = f"{words.pick('adjective', 'en')}_{key}"
        if key not in keys:
            keys.append(key)
    return keys


def _value(words: Words) -> Json:
    rng = words.rng
    if rng.random() < 0.1:
        return rng.choice((True, False, None))
    kind = rng.choice(("amount", "count", "level", "word", "code", "person", "city", "time", "date", "status", "sky", "phrase",
                       "color", "degrees", "when", "email"))  # fmt: skip
    if kind in ("status", "sky"):
        return words.pick(kind)
    return shape(kind, words).draw().value


def _formed(form: str, about: str, words: Words) -> Json:
    """`key=kind, key=[kind]` as an object."""
    found: dict[str, Json] = {}
    for part in re.split(r",\s*(?![^\[{]*[\]}])", form):
        key, _, kind = part.strip().partition("=")
        if kind == "same":
            found[key] = about
        elif kind in ("sky", "status"):
            found[key] = words.pick(kind)
        elif kind == "true":
            found[key] = True
        else:
            found[key] = shape(kind, words).draw().value
    return {key: value for key, value in found.items() if value != ""}


def alike(result: Json, about: str, now: str, words: Words) -> Json:
    """A result of the same form about something else."""
    rng = words.rng
    if isinstance(result, dict):
        return {key: alike(value, about, now, words) for key, value in result.items()}
    if isinstance(result, list):
        return [alike(value, about, now, words) for value in result]
    if isinstance(result, bool) or result is None:
        return result
    if isinstance(result, int):
        return max(-20, result + rng.randint(-9, 9))
    if isinstance(result, float):
        return round(result + rng.randint(-9, 9), 2)
    if result == about:
        return now
    other = words.pick("city") if rng.random() < 0.5 else phrase(words)
    return rng.choice((result, words.pick("sky"), words.pick("status"), words.invented(), other))


def sentence(calls: list[Call], results: list[Json], language: Language) -> str:
    parts = [_one(call, result, language) for call, result in zip(calls, results, strict=True)]
    return ("" if language == "zh" else " ").join(parts)


def _one(call: Call, result: Json, language: Language) -> str:
    about = call.subject
    zh = language == "zh"
    if isinstance(result, dict) and len(result) == 1 and "error" in result:
        said = f"不成功：{result['error']}" if zh else f"that did not work: {result['error']}"
    elif isinstance(result, dict):
        said = _join(_facts(result, about, zh), zh)
    else:
        said = f"结果是{_text(result, zh)}" if zh else f"the answer is {_text(result, zh)}"
    if zh:
        return f"{about}：{said}。" if about else f"结果：{said}。"
    return f"For {about}, {said}." if about else f"Done: {said}."


def _facts(result: dict[str, Json], about: str, zh: bool) -> list[str]:
    found: list[str] = []
    for key, value in result.items():
        if isinstance(value, str) and value == about and len(result) > 1:
            continue
        if key in UNITS and found and isinstance(value, str) and found[-1][-1:].isdigit():
            found[-1] += f" {value}"
        elif isinstance(value, dict):
            found += _facts(value, about, zh)
        elif isinstance(value, list):
            found.append(
                f"{_words(key)}是{_text(value, zh)}"
                if zh
                else f"the {_words(key)} are {_text(value, zh)}"
            )
        else:
            found.append(
                f"{_words(key)}是{_text(value, zh)}"
                if zh
                else f"the {_words(key)} is {_text(value, zh)}"
            )
    return found


def _words(key: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).replace("_", " ").replace("-", " ")


def _text(value: Json, zh: bool) -> str:
    if value is True or value is False:
        return ("是" if value else "否") if zh else ("yes" if value else "no")
    if value is None:
        return "无" if zh else "none"
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return "; ".join(" ".join(_text(v, zh) for v in row.values()) for row in value)
        return _join([_text(each, zh) for each in value], zh)
    return value if isinstance(value, str) else json.dumps(value)


def _join(texts: list[str], zh: bool) -> str:
    if not texts:
        return "没有" if zh else "nothing"
    if zh:
        return "，".join(texts)
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"

"""How people wrap what they ask: please, could you, a question mark or none."""

from __future__ import annotations

import re

from .tools import Mood
from .words import Words

IMPERATIVE = (
    "please {}", "{} please", "{}, please", "could you {}", "can you {}", "can you please {}", "could you please {}",
    "would you {}", "will you {}", "i want you to {}", "i'd like you to {}", "i need you to {}", "can you {} for me",
    "help me {}", "i want to {}", "i'd like to {}", "i need to {}", "hey, {}", "hi, {}", "hello, please {}", "{} for me",
    "{} now", "{}, thanks", "{}. Thanks!", "quick, {}", "ok, {}", "so, {}", "let's {}", "i would like to {}", "go and {}",
    "be so kind and {}", "would you please {}", "just {}", "you should {}", "i was hoping you could {}",
    "if you have a moment, {}", "is it possible to {}", "do me a favor and {}", "i was wondering if you could {}",
    "it would be great if you could {}", "my friend wants to {}", "we need to {}", "try to {}", "next, {}",
)  # fmt: skip
QUESTION = (
    "hey, {}", "hi, {}", "hello, {}", "please tell me, {}", "tell me: {}", "quick question: {}", "{}, please", "so, {}", "ok, {}",
    "excuse me, {}", "one more thing: {}", "by the way, {}", "{}, any idea", "sorry to bother you, {}", "good morning, {}",
    "my boss asks: {}", "just wondering, {}",
)  # fmt: skip
STATEMENT = (
    "hey, {}", "hi, {}", "hello, {}", "{}, please", "so, {}", "ok, {}", "excuse me, {}", "one more thing: {}", "by the way, {}",
    "sorry to bother you, {}", "good morning, {}", "my boss says: {}", "listen, {}", "{}, thanks", "next, {}",
)  # fmt: skip
ZH_IMPERATIVE = (
    "请{}",
    "帮我{}",
    "请帮我{}",
    "麻烦{}",
    "能不能{}",
    "可以{}吗",
    "我想{}",
    "我要{}",
    "你好，{}",
    "{}，谢谢",
    "麻烦你帮我{}",
    "现在{}",
)
ZH_QUESTION = ("请问{}", "你好，{}", "告诉我，{}", "我想知道{}", "请告诉我{}")
WAYS: dict[Mood, tuple[str, ...]] = {
    "order": IMPERATIVE,
    "question": QUESTION,
    "statement": STATEMENT,
    "value": STATEMENT,
}
POLITE = ("could", "can ", "would", "will ", "is it")
"""Beginnings of orders that are asked."""
STATED = re.compile(r"(the|an?|my|our|no|i|we|it|there|someone|nobody|that)\b", re.IGNORECASE)
"""Beginnings of what is neither ordered nor asked."""
VALUE = re.compile(r"\{\w+\}.")


ASIDES = 0.08
"""Of the requests: those beside which something is said that nothing follows from."""
BEFORE = ("I keep forgetting it. {}", "My {noun} is {adjective}. {}", "we talked about the {noun}. {}", "I'm in a hurry: {}",
          "it's for my {noun}: {}", "I am with the {noun} now, {}", "the {noun} told me so: {}", "before I forget the {noun}: {}")  # fmt: skip
AFTER = ("{}. It's urgent", "{}. I'm in a hurry", "{}. The {noun} is {adjective}", "{}. I need it for the {noun}",
         "{}. My {noun} is {adjective}", "{}. The {noun} wants it", "{}. I forgot my {noun}", "{}. We have a {adjective} {noun}")  # fmt: skip


def mood_of(form: str, mood: Mood) -> Mood:
    """Of a request with its slots, which is `mood` if it states nothing."""
    if VALUE.match(form):
        return "value"
    return "statement" if STATED.match(form) else mood


def _aside(request: str, words: Words) -> str:
    form = words.rng.choice(BEFORE + AFTER).replace("{}", request, 1)
    return form.replace("{noun}", words.everyday("noun")).replace(
        "{adjective}", words.everyday("adjective")
    )


def wrap(request: str, mood: Mood, words: Words) -> str:
    """The request as someone would type it."""
    rng = words.rng
    if words.language == "zh":
        asks = mood == "question"
        if rng.random() < 0.5:
            request = rng.choice(ZH_QUESTION if asks else ZH_IMPERATIVE).replace("{}", request)
        return request + rng.choice(("", "？" if asks else "。", "", "?" if asks else "！"))
    request = re.sub(
        r"\b(?:on|for|by) (today|tomorrow|tonight|next week|this )",
        r"\1",
        " ".join(request.split()),
    )
    said = request
    if rng.random() < (0.45 if mood == "order" else 0.2):
        said = rng.choice(WAYS[mood]).replace("{}", said)
    if rng.random() < ASIDES:
        said = _aside(said, words)
    return finish(said, mood, words, capital=mood != "value" or not said.startswith(request))


def finish(request: str, mood: Mood, words: Words, *, capital: bool = True) -> str:
    """A capital and an end, or neither. `capital` is false where a value comes first: whether its
    own letter is one has to be seen."""
    rng = words.rng
    if rng.random() < 0.65 and capital:
        request = request[:1].upper() + request[1:]
        request = request.replace(" i ", " I ").replace(" i'", " I'")
    asks = mood == "question" or (mood == "order" and request.lower().startswith(POLITE))
    ends = ("?", "?", "?", "", ".") if asks else (".", ".", "", "", "!")
    end = rng.choice(ends)
    return request if request[-1:] in ".?!" else request + end


def together(parts: list[tuple[str, Mood]], words: Words) -> str:
    """Two requests in one message."""
    rng = words.rng
    (first, mood), (second, then) = parts
    if words.language == "zh":
        return f"{first}{rng.choice(('，然后', '，再', '，还有', '，同时'))}{second}"
    if mood == then == "order":
        link = rng.choice(
            (" and ", ", then ", " and then ", " and also ", ". Then ", ", and ", ". Also ")
        )
    else:
        end = "?" if mood == "question" else "."
        link = rng.choice((f"{end} Also, ", f"{end} And ", f"{end} Then ", ", and also ", " and "))
    return finish(
        rng.choice(("", "", "please ")) * (mood == "order") + first + link + second,
        then,
        words,
        capital=mood != "value",
    )

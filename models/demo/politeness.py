"""How people wrap what they ask: please, could you, a question mark or none."""

from __future__ import annotations

import re

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


ASIDES = 0.08
"""Of the requests: those beside which something is said that nothing follows from."""
BEFORE = ("I keep forgetting it. {}", "My {noun} is {adjective}. {}", "we talked about the {noun}. {}", "I'm in a hurry: {}",
          "it's for my {noun}: {}", "I am with the {noun} now, {}", "the {noun} told me so: {}", "before I forget the {noun}: {}")  # fmt: skip
AFTER = ("{}. It's urgent", "{}. I'm in a hurry", "{}. The {noun} is {adjective}", "{}. I need it for the {noun}",
         "{}. My {noun} is {adjective}", "{}. The {noun} wants it", "{}. I forgot my {noun}", "{}. We have a {adjective} {noun}")  # fmt: skip


def _aside(request: str, words: Words) -> str:
    form = words.rng.choice(BEFORE + AFTER).replace("{}", request, 1)
    return form.replace("{noun}", words.everyday("noun")).replace(
        "{adjective}", words.everyday("adjective")
    )


def wrap(request: str, question: bool, words: Words) -> str:
    """The request as someone would type it."""
    rng = words.rng
    if words.language == "zh":
        if rng.random() < 0.5:
            request = rng.choice(ZH_QUESTION if question else ZH_IMPERATIVE).replace("{}", request)
        return request + rng.choice(("", "？" if question else "。", "", "?" if question else "！"))
    request = re.sub(
        r"\b(?:on|for|by) (today|tomorrow|tonight|next week|this )",
        r"\1",
        " ".join(request.split()),
    )
    if rng.random() < (0.2 if question else 0.45):
        request = rng.choice(QUESTION if question else IMPERATIVE).replace("{}", request)
    if rng.random() < ASIDES:
        request = _aside(request, words)
    return finish(request, question, words)


def finish(request: str, question: bool, words: Words) -> str:
    """A capital and an end, or neither."""
    rng = words.rng
    if rng.random() < 0.65:
        request = request[:1].upper() + request[1:]
        request = request.replace(" i ", " I ").replace(" i'", " I'")
    asks = question or request.lower().startswith(("could", "can ", "would", "will ", "is it"))
    ends = ("?", "?", "?", "", ".") if asks else (".", ".", "", "", "!")
    end = rng.choice(ends)
    return request if request[-1:] in ".?!" else request + end


def together(parts: list[tuple[str, bool]], words: Words) -> str:
    """Two requests in one message."""
    rng = words.rng
    (first, first_asks), (second, second_asks) = parts
    if words.language == "zh":
        return f"{first}{rng.choice(('，然后', '，再', '，还有', '，同时'))}{second}"
    if first_asks or second_asks:
        end = "?" if first_asks else "."
        link = rng.choice((f"{end} Also, ", f"{end} And ", f"{end} Then ", ", and also ", " and "))
    else:
        link = rng.choice(
            (" and ", ", then ", " and then ", " and also ", ". Then ", ", and ", ". Also ")
        )
    return finish(
        rng.choice(("", "", "please ")) * (not first_asks) + first + link + second,
        second_asks,
        words,
    )

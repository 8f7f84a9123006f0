"""Values of several words: people, things, sentences, put together anew each time."""

from __future__ import annotations

from .words import Words


def named(words: Words) -> str:
    """A person of two names."""
    first = words.pick("person").split()[-1].capitalize()
    return f"{first} {words.everyday('noun').capitalize()}"


def compound(words: Words) -> str:
    """A thing of one to three everyday words."""
    rng = words.rng
    noun, adjective = words.everyday("noun"), words.everyday("adjective")
    text = rng.choice(
        (noun, f"{noun} {words.everyday('noun')}", f"{adjective} {noun}", f"{adjective} {noun}",
         f"{adjective} {noun} {words.everyday('noun')}")
    )  # fmt: skip
    return text.title() if rng.random() < 0.2 else text


def saying(words: Words) -> str:
    """A sentence of everyday words."""
    rng = words.rng
    one, other = words.everyday("noun"), words.everyday("noun")
    verb, adjective = words.everyday("verb"), words.everyday("adjective")
    return rng.choice(
        (f"the {one} is {adjective}", f"we {verb} the {one}", f"please {verb} the {adjective} {one}",
         f"the {one} and the {other} are {adjective}", f"{verb} it before the {one}", f"{adjective} {one}",
         f"my {one} needs a {adjective} {other}", f"no {one} without {other}", f"the {one} of the {other}",
         f"I {verb} a {one} every {other}", f"is the {one} {adjective} now", f"{one}, {other} and {words.everyday('noun')}")
    )  # fmt: skip


def phrase(words: Words) -> str:
    """Two or three words that belong together."""
    rng = words.rng
    if words.language == "zh":
        return words.pick("adjective") + words.pick("thing")
    if rng.random() < 0.4:
        return compound(words)
    adjective, thing = words.pick("adjective"), words.pick("thing")
    return rng.choice(
        (f"{adjective} {thing}", f"{thing}s", f"{adjective} {thing}s", f"{thing} for {words.pick('person')}",
         f"{thing} in {words.pick('city')}", f"{adjective} {words.pick('adjective')} {thing}")
    )  # fmt: skip


def topic(words: Words) -> str:
    return words.pick("topic") if words.rng.random() < 0.6 else phrase(words)


def text(words: Words) -> str:
    rng = words.rng
    if words.language == "en" and rng.random() < 0.5:
        return saying(words)
    return words.pick("text")


def chore(words: Words) -> str:
    rng = words.rng
    if words.language == "zh" or rng.random() < 0.5:
        return words.pick("chore")
    what = words.everyday("noun") if rng.random() < 0.6 else compound(words)
    return f"{words.everyday('verb')} {rng.choice(('the', 'my', 'a', ''))} {what}".replace(
        "  ", " "
    )

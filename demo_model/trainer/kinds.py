"""What an argument can be: its schema, and values as they are said and as they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .phrases import compound, named, phrase, text
from .words import Words

Json = Any
Schema = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """A value: in the request's words, and in the call."""

    text: str
    value: Json


@dataclass(frozen=True)
class Shape:
    """An argument of one tool: the schema is fixed, values are drawn."""

    schema: Schema
    draw: Callable[[], Said]


MONTHS = "January February March April May June July August September October November December"
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
NUMBER_WORDS = "one two three four five six seven eight nine ten eleven twelve"
ZH_NUMBERS = "一二三四五六七八九十"
TAILS = ("mail.com", "example.org", "corp.io", "web.de", "post.net", "acme.com")


def _word(section: str) -> Callable[[Words], Said]:
    def draw(words: Words) -> Said:
        rng = words.rng
        roll = rng.random()
        if roll < 0.04:
            text = words.invented()
        elif roll < 0.2 and words.language == "en":
            text = named(words) if section == "person" else compound(words)
        else:
            text = words.pick(section)
        return Said(text, text)

    return draw


def word(words: Words) -> str:
    """A name of something: a word of no list in particular, or of no language."""
    known = words.language == "en" and words.rng.random() < 0.85
    return words.everyday("noun") if known else words.invented()


def plain(section: str) -> Callable[[Words], Said]:
    def draw(words: Words) -> Said:
        text = words.pick(section)
        return Said(text, text)

    return draw


def _same(make: Callable[[Words], str]) -> Callable[[Words], Said]:
    def draw(words: Words) -> Said:
        text = make(words)
        return Said(text, text)

    return draw


def city(words: Words) -> str:
    rng = words.rng
    roll = rng.random()
    name = words.pick("city") if roll < 0.95 else words.invented().capitalize()
    if 0.85 < roll < 0.95 and words.language == "en":
        first = rng.choice(
            (
                "New",
                "Port",
                "Lake",
                "Saint",
                "Fort",
                "East",
                words.everyday("adjective").capitalize(),
            )
        )
        name = f"{first} {words.everyday('noun').capitalize()}"
    if words.language == "en" and rng.random() < 0.18:
        return f"{name}, {words.pick('state' if rng.random() < 0.6 else 'country')}"
    return name


def date(words: Words) -> str:
    rng = words.rng
    if words.language == "zh":
        return rng.choice(
            (
                "今天",
                "明天",
                "后天",
                "下周一",
                "周五",
                f"{rng.randint(1, 12)}月{rng.randint(1, 28)}日",
            )
        )
    day, month = rng.choice(DAYS.split()), rng.choice(MONTHS.split())
    return rng.choice(
        (
            "today", "tomorrow", "tonight", "next week", "this weekend", day, f"next {day}",
            f"this {day}", f"{month} {rng.randint(1, 28)}", f"{month[:3]} {rng.randint(1, 28)}",
            f"20{rng.randint(22, 31)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
            f"the {rng.randint(4, 20)}th of {month}", f"{rng.randint(1, 12)}/{rng.randint(1, 28)}",
        )
    )  # fmt: skip


def time(words: Words) -> str:
    rng = words.rng
    hour, minute = rng.randint(1, 12), rng.choice((0, 5, 10, 15, 20, 30, 40, 45, 50))
    if words.language == "zh":
        return rng.choice(
            (f"早上{hour}点", f"下午{hour}点", f"晚上{hour}点", f"{hour}:{minute:02}")
        )
    half = rng.choice(("am", "pm"))
    return rng.choice(
        (
            f"{hour}{half}", f"{hour} {half}", f"{hour}:{minute:02}{half}", f"{hour}:{minute:02}",
            f"{rng.randint(0, 23):02}:{minute:02}", f"{hour} o'clock", "noon", "midnight",
            f"{hour}:{minute:02} {half}",
        )
    )  # fmt: skip


def when(words: Words) -> str:
    if words.rng.random() < 0.35:
        return words.rng.choice((date, time))(words)
    if words.language == "zh":
        return f"{date(words)}{time(words)}"
    return f"{date(words)} at {time(words)}"


def span(words: Words) -> str:
    """A length of time, as a text."""
    number = words.rng.choice((1, 2, 3, 5, 10, 12, 15, 20, 25, 30, 45, 60, 90))
    if words.language == "zh":
        return f"{number}{words.rng.choice(('分钟', '秒', '小时', '天'))}"
    unit = words.rng.choice(("second", "minute", "hour", "day", "week"))
    return f"{number} {unit}{'' if number == 1 else 's'}"


def code(words: Words) -> str:
    rng = words.rng
    number = rng.randint(1, 10 ** rng.randint(2, 6))
    letters = "".join(rng.choice("ABCDEFGHKLMNPRSTUVWX") for _ in range(rng.randint(1, 3)))
    noun = rng.choice(("srv", "web", "db", "dev", "node", "job", "usr", "box", "vm", "pod", "cam"))
    return rng.choice(
        (f"{letters}-{number}", f"{letters}{number}", str(number), f"#{number}", f"{noun}{number % 99}",
         f"{noun}-{number % 99:02}", f"{letters}-{number}-{rng.choice('ABXYZ')}",
         "".join(rng.choice("0123456789abcdef") for _ in range(6)))
    )  # fmt: skip


def email(words: Words) -> str:
    name = words.pick("person", "en").split()[-1].lower().strip(".")
    other = words.everyday("noun") if words.rng.random() < 0.7 else words.invented().lower()
    return f"{words.rng.choice((name, other))}@{words.rng.choice(TAILS)}"


def phone(words: Words) -> str:
    rng = words.rng
    return rng.choice(
        (f"555-{rng.randint(0, 9999):04}", f"+{rng.randint(1, 99)} {rng.randint(10**6, 10**7)}",
         str(rng.randint(10**9, 10**10)), f"{rng.randint(200, 999)}-{rng.randint(1000, 9999)}")
    )  # fmt: skip


def file(words: Words) -> str:
    rng = words.rng
    stem = words.rng.choice(
        (words.pick("thing", "en"), words.everyday("noun"), words.everyday("noun"))
    )
    name = f"{stem}{rng.choice(('', '', f'_{rng.randint(1, 30)}', '-final'))}.{rng.choice(('pdf', 'txt', 'csv', 'png', 'docx', 'json', 'py', 'zip', 'log', 'mp4'))}"
    folder = rng.choice(("", "", "", "/tmp/", "docs/", "/home/ann/", "src/", "/var/log/"))
    return folder + name


def url(words: Words) -> str:
    rng = words.rng
    name = words.everyday("noun") if rng.random() < 0.7 else words.invented().lower()
    return f"{rng.choice(('https://', 'http://', 'www.'))}{name}.{rng.choice(('com', 'org', 'net'))}{rng.choice(('', '', '/news', '/a/b'))}"


def symbol(words: Words) -> str:
    return "".join(
        words.rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(words.rng.randint(2, 5))
    )


def quoted(words: Words) -> Said:
    """A message: in quotes, or bare at the end of the request."""
    value = text(words)
    return Said(words.rng.choice((f'"{value}"', f"'{value}'", value, value)), value)


def title(words: Words) -> Said:
    value = words.pick("title") if words.rng.random() < 0.6 else phrase(words)
    if words.language == "en" and words.rng.random() < 0.3:
        value = value[:1].upper() + value[1:]
    return Said(words.rng.choice((value, value, f'"{value}"')), value)


def small(low: int, high: int, worded: float = 0.3) -> Callable[[Words], Said]:
    def draw(words: Words) -> Said:
        number = words.rng.randint(low, high)
        if worded and words.rng.random() < worded and 1 <= number <= 10:
            spelt = (
                ZH_NUMBERS[number - 1]
                if words.language == "zh"
                else NUMBER_WORDS.split()[number - 1]
            )
            return Said(spelt, number)
        return Said(str(number), number)

    return draw


def amount(words: Words) -> Said:
    rng = words.rng
    number: float = rng.choice(
        (rng.randint(1, 99), rng.randint(1, 20) * 50, rng.randint(1, 999) + rng.randint(1, 9) / 10)
    )
    if rng.random() < 0.15:
        number = rng.randint(1, 99) + rng.choice((0.25, 0.75, 0.99, 0.45))
    return Said(str(number), number)


def temperature(words: Words) -> Said:
    number = words.rng.randint(-9, 40)
    return Said(str(number), number)


def minutes(words: Words) -> Said:
    number = words.rng.choice((1, 2, 3, 4, 5, 7, 8, 10, 12, 15, 20, 25, 30, 40, 45, 50, 60, 90))
    return Said(
        f"{number}分钟"
        if words.language == "zh"
        else f"{number} minute{'s' if number > 1 else ''}",
        number,
    )

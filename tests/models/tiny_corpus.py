"""Text for the tiny tokenizer, made up here from word lists and templates: needs no download.

The lists only have to be wide enough that byte pair encoding learns whole words, their inflections
and their `snake_case` and `"quoted` forms, and that JSON's closers meet often enough to merge.
"""

import json
import random
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path


def words(text: str) -> list[str]:
    return text.split()


WORDS: dict[str, list[str]] = {
    name: value.split() if isinstance(value, str) else value
    for name, value in tomllib.loads(
        Path(__file__).with_name("tiny_words.toml").read_text(encoding="utf-8")
    ).items()
}
VOWELS = frozenset("aeiou")


def inflections(verb: str) -> list[str]:
    """Regular forms only: a wrong past tense costs a tokenizer nothing."""
    stem = verb[:-1] if verb.endswith("e") else verb
    past = verb[:-1] + "ied" if verb[-1] == "y" and verb[-2] not in VOWELS else stem + "ed"
    return [verb, plural(verb), stem + "ing", past]


def plural(word: str) -> str:
    if word[-1] == "y" and word[-2:-1] not in VOWELS:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


class Corpus:
    """A stream of lines; the same seed gives the same lines."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nouns = WORDS["nouns"]
        self.verbs = WORDS["verbs"]
        self.adjectives = WORDS["adjectives"]
        self.small = WORDS["small_words"]
        self.names = WORDS["names"]
        self.every_word = sorted(
            {
                *self.nouns,
                *map(plural, self.nouns),
                *(form for verb in self.verbs for form in inflections(verb)),
                *self.adjectives,
                *self.small,
            }
        )

    def lines(self, count: int) -> Iterator[str]:
        yield from self.dictionary()
        makers: tuple[tuple[Callable[[], str], int], ...] = (
            (self.sentence, 30),
            (self.tool, 22),
            (self.call, 14),
            (self.record, 10),
            (self.code, 8),
            (self.chinese, 8),
            (self.mixed, 5),
            (lambda: self.rng.choice(WORDS["other_scripts"]), 3),
        )
        chosen = self.rng.choices(
            [maker for maker, _ in makers], [weight for _, weight in makers], k=count
        )
        for maker in chosen:
            yield maker()

    def dictionary(self) -> Iterator[str]:
        """Every word at least three times after a space, and bare, capitalised and in names."""
        for word in [*self.every_word, *self.names]:
            yield f"the {word} or {word} and {word}"
            yield f"{word.capitalize()}\n{word}({word})"
        for word in self.nouns:
            yield f"get_{word}_{self.pick(self.nouns)}: {word.capitalize()}"
        for word in WORDS["schema_words"]:
            yield " ".join([f'{{"{word}": "{word}"}}'] * 20)

    def pick(self, words: list[str]) -> str:
        return self.rng.choice(words)

    def phrase(self) -> str:
        start = self.rng.choice(("the", "a", "each", "your", "this", "any", "all"))
        adjective = f" {self.pick(self.adjectives)}" if self.rng.random() < 0.5 else ""
        noun = self.pick(self.nouns)
        return f"{start}{adjective} {plural(noun) if self.rng.random() < 0.3 else noun}"

    def clause(self) -> str:
        verb = self.rng.choice(inflections(self.pick(self.verbs)))
        link = self.pick(self.small)
        return f"{self.phrase()} {verb} {self.phrase()} {link} {self.phrase()}"

    def sentence(self) -> str:
        templates: tuple[Callable[[], str], ...] = (
            lambda: f"{self.clause().capitalize()}.",
            lambda: f"What is {self.phrase()} of {self.pick(self.names)}?",
            lambda: f"Can you {self.pick(self.verbs)} {self.phrase()} for me, please?",
            lambda: (
                f"I'd like to {self.pick(self.verbs)} {self.phrase()} in {self.pick(self.names)}"
                f" on {self.date()}, and then {self.pick(self.verbs)} {self.phrase()}."
            ),
            lambda: f"If {self.clause()}, then {self.clause()}; it doesn't {self.clause()}.",
            lambda: f"{self.pick(self.names)}'s {self.pick(self.nouns)} isn't {self.number()}%!",
            lambda: f"Okay, so {self.clause()}. Let me {self.pick(self.verbs)} {self.phrase()}.\n",
            lambda: (
                f"# {self.pick(self.nouns).capitalize()}\n\n- **{self.phrase()}**: {self.clause()}"
            ),
        )
        return self.rng.choice(templates)()

    def describe(self) -> str:
        templates: tuple[Callable[[], str], ...] = (
            lambda: f"The {self.pick(self.nouns)} of {self.phrase()}.",
            lambda: (
                f"{self.pick(self.verbs).capitalize()} {self.phrase()} based on {self.phrase()}."
            ),
            lambda: (
                f"The {self.pick(self.nouns)} to {self.pick(self.verbs)}, e.g. '{self.value()}'."
            ),
            lambda: f"Optional {self.pick(self.nouns)} ({self.pick(self.adjectives)} or not).",
            lambda: (
                f"{self.phrase().capitalize()} in {self.pick(self.nouns)}."
                f" Default is {self.number()}."
            ),
        )
        return self.rng.choice(templates)()

    def identifier(self) -> str:
        kind = self.rng.random()
        if kind < 0.25:
            return self.pick(self.nouns)
        if kind < 0.5:
            return f"{self.pick(self.nouns)}_{self.pick(self.nouns)}"
        if kind < 0.75:
            return f"{self.pick(self.verbs)}_{self.pick(self.adjectives)}_{self.pick(self.nouns)}"
        if kind < 0.9:
            return f"{self.pick(self.verbs)}{self.pick(self.nouns).capitalize()}"
        return f"{self.pick(self.nouns)}.{self.pick(self.verbs)}"

    def number(self) -> str:
        whole = self.rng.randrange(10 ** self.rng.randrange(1, 6))
        return f"{whole}.{self.rng.randrange(100)}" if self.rng.random() < 0.3 else str(whole)

    def date(self) -> str:
        return (
            f"20{self.rng.randrange(10, 30)}-{self.rng.randrange(1, 13):02}"
            f"-{self.rng.randrange(1, 29):02}"
        )

    def value(self) -> str:
        templates: tuple[Callable[[], str], ...] = (
            lambda: self.pick(self.names),
            lambda: self.phrase(),
            lambda: self.pick(self.nouns),
            self.date,
            lambda: f"{self.pick(self.names)}, {self.pick(self.names)}",
            lambda: f"https://www.{self.pick(self.nouns)}.com/{self.identifier()}.html",
            lambda: f"{self.pick(self.names).lower()}@example.org",
        )
        return self.rng.choice(templates)()

    def json_value(self, depth: int) -> object:
        kind = self.rng.random()
        if depth and kind < 0.15:
            return {self.identifier(): self.json_value(depth - 1) for _ in range(2)}
        if depth and kind < 0.35:
            return [self.json_value(depth - 1) for _ in range(self.rng.randrange(4))]
        if kind < 0.7:
            return self.value()
        if kind < 0.85:
            return float(self.number()) if self.rng.random() < 0.3 else self.rng.randrange(5000)
        return self.rng.choice((True, False, None, "", {}, []))

    def dump(self, value: object) -> str:
        """Compact, spaced or indented, so that each style's closers become tokens."""
        style = self.rng.random()
        if style < 0.55:
            return json.dumps(value, ensure_ascii=False)
        if style < 0.8:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return json.dumps(value, ensure_ascii=False, indent=self.rng.choice((2, 4)))

    def record(self) -> str:
        return self.dump({self.identifier(): self.json_value(2) for _ in range(4)})

    def property(self) -> dict[str, object]:
        schema: dict[str, object] = {
            "type": self.rng.choice(("string", "integer", "number", "boolean", "array", "string")),
            "description": self.describe(),
        }
        if schema["type"] == "array":
            schema["items"] = {"type": self.rng.choice(("string", "number", "integer"))}
        elif schema["type"] == "string" and self.rng.random() < 0.3:
            schema["enum"] = [self.pick(self.nouns) for _ in range(3)]
        if self.rng.random() < 0.2:
            schema["default"] = self.json_value(0)
        return schema

    def tool(self) -> str:
        properties = {self.identifier(): self.property() for _ in range(self.rng.randrange(1, 5))}
        parameters = {
            "type": "object",
            "properties": properties,
            "required": list(properties)[: self.rng.randrange(1, 4)],
        }
        function = {
            "name": self.identifier(),
            "description": self.describe(),
            "parameters": parameters,
        }
        return self.dump({"type": "function", "function": function})

    def call(self) -> str:
        arguments = {self.identifier(): self.json_value(1) for _ in range(self.rng.randrange(1, 4))}
        return "\n" + self.dump({"name": self.identifier(), "arguments": arguments}) + "\n"

    def code(self) -> str:
        name, one, two = (
            self.identifier().replace(".", "_"),
            self.pick(self.nouns),
            self.pick(self.nouns),
        )
        templates = (
            f"def {name}({one}: str, {two}: int = {self.number()}) -> None:\n"
            f'    """{self.describe()}"""\n'
            f"    for {one} in range(len({two})):\n"
            f"        if {one} == {two} and not {one}.{name}:\n"
            f"            return {two}[{one}] + {self.number()}\n",
            f"const {one} = await {name}({two}, {{ {one}: true }});\n"
            f"if ({one} !== null) {{\n  console.log(`${{{two}}}`);\n}}\n",
            f"SELECT {one}, COUNT({two}) FROM {name} WHERE {one} >= {self.number()} LIMIT 10;",
            f'<div class="{one}"><p>{self.phrase()}</p></div>\n<!-- {two} -->',
            f"$ {one} --{two}={self.number()} | grep -v '{name}' > /tmp/{two}.txt && echo $?",
            f"f(x) = {self.number()}x^2 + {self.number()}x - {self.number()}, x = (3, -1)",
        )
        return self.rng.choice(templates)

    def chinese(self) -> str:
        order = ("times", "subjects", "verbs", "links", "objects", "links", "objects")
        parts = [*map(self.chinese_word, order)]
        return f"{''.join(parts)}，{self.chinese_word('subjects')}{self.chinese_word('verbs')}。"

    def chinese_word(self, part: str) -> str:
        return self.pick(WORDS[f"chinese_{part}"])

    def mixed(self) -> str:
        some = " ".join(self.rng.choices(WORDS["symbols"], k=4))
        return f"{self.phrase()} {some} {self.number()}°C — {self.chinese_word('objects')}"

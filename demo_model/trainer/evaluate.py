"""What the served model can do: `make eval-demo-model`.

Values and tools that were never trained on, and conversations written by hand; each asked twice, as
vLLM answers alone and as Toolgate answers. Greedy. Exact means: the very calls, their arguments and
their order, or a sentence with all that the results hold. Conversations that only one of the two
gets right are counted, with the difference of the shares and its 95 % interval. With `--card` the
table goes into the card.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path

import jsonschema
from rich.console import Console

from toolgate_demo_model import path
from toolgate_proxy.demo.model import NAME
from toolgate_proxy.stack.processes import free_port
from toolgate_proxy.stack.stack import Stack, StackOptions

from . import asking
from .asking import Given
from .dialogue import Dialogue, Results
from .handwritten import conversations
from .kinds import Json
from .samples import Source
from .words import Language

AT_ONCE = 8
KNOWN = "known tools, new values"
BEGIN, END = "<!-- figures: written by make eval-demo-model -->", "<!-- end of figures -->"


@dataclass(frozen=True)
class Question:
    dialogue: Dialogue
    holds: tuple[str, ...] | None = None
    """Of a sentence; None where the calls are what is judged."""

    def right(self, given: Given) -> bool:
        wanted = self.dialogue.answer
        if wanted.calls:
            return given.parsed() == list(wanted.calls)
        ends = given.content.rstrip().endswith((".", "!", "?", "。", "！", "？"))
        return not given.calls and ends and all(text in given.content for text in self.holds or ())

    def valid(self, given: Given) -> bool:
        """Every call names a tool and keeps to its schema."""
        schemas = {
            tool.name: tool.openai()["function"]["parameters"] for tool in self.dialogue.tools
        }
        calls = given.parsed()
        if calls is None:
            return False
        try:
            for call in calls:
                schema = schemas[call.name] | {"additionalProperties": False}
                jsonschema.validate(call.arguments, schema)
        except (KeyError, jsonschema.ValidationError):
            return False
        return True


def leaves(value: Json) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in leaves(each)]
    if isinstance(value, list):
        return [text for each in value for text in leaves(each)]
    if value is None or isinstance(value, bool):
        return []  # said as yes, no or none
    return [value if isinstance(value, str) else json.dumps(value)]


def _result(dialogue: Dialogue) -> Question:
    given = dialogue.turns[-2]
    texts: list[str] = []
    for result in given.results if isinstance(given, Results) else ():
        try:
            texts += leaves(json.loads(result))
        except ValueError:
            texts.append(result)
    return Question(dialogue, tuple(texts))


def questions(number: int) -> dict[str, list[Question]]:
    """The same for every model, of its kind."""

    def drawn(
        seed: int,
        category: str,
        fits: Callable[[Dialogue], bool] = lambda _: True,
        *,
        unseen: bool = False,
        known: float = 0.55,
        language: Language = "en",
    ) -> list[Dialogue]:
        source = Source(seed, held=True, unseen=unseen, known=known)
        found: list[Dialogue] = []
        while len(found) < number:
            dialogue = replace(source.draw(category, language), thinking=False)
            if fits(dialogue):
                found.append(dialogue)
        return found

    def several(dialogue: Dialogue) -> bool:
        return len(dialogue.answer.calls) > 1

    def nested(dialogue: Dialogue) -> bool:
        return any(isinstance(v, (list, dict)) for v in dialogue.answer.calls[0].arguments.values())

    def calls(dialogue: Dialogue) -> bool:
        return bool(dialogue.answer.calls)

    table = {
        KNOWN: drawn(7001, "call", known=1.0),
        "hand-made tools it never saw": drawn(7002, "call", unseen=True),
        "made-up tools, any names": drawn(7003, "call", known=0.0),
        "several calls at once": drawn(7004, "call", several),
        "arrays and nested objects": drawn(7005, "call", nested),
        "two tools in one request": drawn(7006, "two tools", several),
        "Chinese": drawn(7007, "call", language="zh"),
        "follow-up questions": drawn(7008, "follow-up", calls),
        "the next call of a loop": drawn(7009, "chain", calls),
        "no tool fits": drawn(7010, "no tool"),
        "small talk": drawn(7011, "talk"),
    }
    found = {
        name: [Question(dialogue) for dialogue in dialogues] for name, dialogues in table.items()
    }
    found["sentence after results"] = [_result(d) for d in drawn(7012, "result")]
    found["known tools, thinking"] = [
        Question(replace(question.dialogue, thinking=True)) for question in found[KNOWN]
    ]
    found["written by hand"] = [Question(each.dialogue(), each.holds) for each in conversations()]
    return found


@dataclass(frozen=True)
class Figures:
    name: str
    number: int
    both: int
    """Conversations that are right alone and enforced."""
    lost: int
    """Right alone only."""
    gained: int
    """Right enforced only."""
    free_valid: int
    enforced_valid: int

    def row(self) -> str:
        free, enforced = self.both + self.lost, self.both + self.gained
        shares = (free, enforced, self.free_valid, self.enforced_valid)
        cells = [f"{100 * n / self.number:.0f} %" for n in shares]
        low, high = interval(self.lost, self.gained, self.number)
        cells.append(f"{self.gained} / {self.lost}")
        difference = (self.gained - self.lost) / self.number
        cells.append(f"{100 * difference:+.0f} ({100 * low:+.0f} to {100 * high:+.0f})")
        return f"| {self.name} | {self.number} | {' | '.join(cells)} |"


def interval(lost: int, gained: int, number: int) -> tuple[float, float]:
    """Of the difference of two shares that were measured with the same questions, 95 %: Agresti and
    Min, Statistics in Medicine 24 (2005), which adds half a question to each of the four outcomes."""
    lost_, gained_, number_ = lost + 0.5, gained + 0.5, number + 2
    difference = (gained_ - lost_) / number_
    half = 1.96 * math.sqrt(gained_ + lost_ - number_ * difference**2) / number_
    return difference - half, difference + half


def measure(stack: Stack, name: str, asked: list[Question], misses: Path | None) -> Figures:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        alone = list(pool.map(lambda q: asking.free(stack, q.dialogue), asked))
        held = list(pool.map(lambda q: asking.enforced(stack, q.dialogue), asked))
    right = [(q.right(a), q.right(e)) for q, a, e in zip(asked, alone, held, strict=True)]
    if misses is not None:
        with misses.open("a", encoding="utf-8") as out:
            for question, free, given, (was_right, is_right) in zip(
                asked, alone, held, right, strict=True
            ):
                if not is_right:
                    user = [getattr(turn, "text", turn) for turn in question.dialogue.turns[:-1]]
                    wanted = question.dialogue.answer.calls or question.holds
                    lost = f"\n  LOST, alone {free}" if was_right else ""
                    print(f"[{name}] {user}\n  wanted {wanted}\n  given {given}{lost}", file=out)
    return Figures(
        name,
        len(asked),
        both=right.count((True, True)),
        lost=right.count((True, False)),
        gained=right.count((False, True)),
        free_valid=sum(q.valid(g) for q, g in zip(asked, alone, strict=True)),
        enforced_valid=sum(q.valid(g) for q, g in zip(asked, held, strict=True)),
    )


def together(rows: list[Figures]) -> Figures:
    counts = (each.name for each in fields(Figures) if each.name != "name")
    return Figures("**all**", **{name: sum(getattr(row, name) for row in rows) for name in counts})


def table(rows: list[Figures]) -> str:
    names = "conversations, number, right alone, right enforced, valid alone, valid enforced"
    names += ", gained / lost, difference in points (95 %)"
    columns = names.split(", ")
    return "\n".join(
        [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *(r.row() for r in rows)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=path())
    parser.add_argument("--number", type=int, default=100, help="conversations of each kind")
    parser.add_argument("--card", action="store_true", help="write the figures into the model card")
    parser.add_argument("--misses", type=Path, help="write what went wrong under enforcement here")
    arguments = parser.parse_args()
    options = StackOptions(
        str(arguments.model),
        port=free_port(),
        served_name=NAME,
        backend_flags=("--max-num-seqs", "16"),
    )
    rows: list[Figures] = []
    with Stack(options, Console(stderr=True)) as stack:
        for name, asked in questions(arguments.number).items():
            rows.append(measure(stack, name, asked, arguments.misses))
            print(rows[-1].row(), flush=True)
    rows.append(together(rows))
    print(rows[-1].row())
    if arguments.card:
        card = arguments.model / "README.md"
        text = card.read_text(encoding="utf-8")
        between = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
        card.write_text(between.sub(f"{BEGIN}\n{table(rows)}\n{END}", text), encoding="utf-8")


if __name__ == "__main__":
    main()

"""docs/schema-support.md, made of what the suite and the real schemas have shown.

`make docs` writes it; a test compares it with what is found anew.
"""

# ruff: noqa: E501 - lines of Markdown

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import transformers

from tests.models import ROOT, tiny_model
from tests.support import schema_suites
from tests.support.schema_judge import Judge
from tests.support.schema_suites import Result
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.engines.choice import XGRAMMAR_KEYWORDS
from toolgate_backend.vocabulary import make_vocabulary
from toolgate_core.schema.advice import ADVICE
from toolgate_core.schema.coverage import coverage
from toolgate_core.schema.keywords import ASSERTIONS
from toolgate_core.schema.unsupported import HELD

PATH = ROOT / "docs" / "schema-support.md"

HEAD = """# Which keywords are enforced, and by whom

Written by `make docs` from the results of the tests; do not edit.

A tool's schema, of any draft from 4 to 2020-12, is read as 2020-12, its references are resolved inside it, and it is rewritten until the grammar engines hold as much of it as they can. What then is left open is *residual*: the finished call is checked for it before the client sees it. So each keyword is in one of four hands:

- **xgrammar** masks it, where the whole schema is in the part that xgrammar holds soundly and fast;
- **llguidance** masks it otherwise;
- **the check** has it, where no mask holds it: such a call is withheld until it is known to be valid;
- **refused** (400, with the JSON Pointer): references that lead out of the schema, what is no valid schema, what no value satisfies, and what is over the limits on size.

`toolgate schema FILE` says it for your tools, with what to write instead. Annotations and unknown keywords assert nothing. `format` asserts; formats that no standard knows are annotations.
"""

ALSO = """
- Objects that name their properties are closed unless they say otherwise ([decision 5](decisions/0005-closed-objects.md)); the instances this leaves out are counted apart, as *by decision*. `TOOLGATE_OPEN_OBJECTS=1` at the gateway reads them as JSON Schema does.
- Members come in the schema's order, white space is fixed ([decision 2](decisions/0002-separators.md)): instances were spelled so before a grammar was asked.
- Masks of `date`, `date-time` and `time` leave out leap seconds; those of `email` quoted local parts and address literals; those of `hostname` two hyphens in a row; those of `ipv6` mixed notation.
- Numbers are written without exponents.
"""


def document(official: Sequence[Result], real: Sequence[Result], opened: Sequence[Result]) -> str:
    return "\n".join(
        [
            HEAD,
            "## Keywords",
            "",
            f"Occurrences that bear on an instance, in {len(real):,} real schemas (MaskBench).",
            "",
            *_table(
                ("keyword", "masked by", "masked", "checked", "checked where"),
                _keywords(real),
            ),
            "",
            "## Real schemas",
            "",
            *_table(
                ("MaskBench", "schemas", "with `TOOLGATE_OPEN_OBJECTS`"),
                (
                    (what, n, m)
                    for (what, n), (_, m) in zip(_totals(real), _totals(opened), strict=True)
                ),
            ),
            "",
            "## The official suite",
            "",
            "JSON-Schema-Test-Suite, all required tests, by file. *Let through*: invalid instances "
            "that get past masks and check together. *Not reachable*: valid instances that the "
            "masks don't let a model write, and of these by decision.",
            "",
            *_table(
                (
                    "file",
                    "schemas",
                    "xgrammar",
                    "llguidance",
                    "checked",
                    "refused",
                    "instances",
                    "let through",
                    "not reachable",
                    "by decision",
                ),
                _files([r for r in official if not r.case.optional]),
            ),
            "",
            "Formats (optional tests of the suite):",
            "",
            *_table(
                ("format", "schemas", "masked", "checked", "instances", "wrong", "not reachable"),
                _formats([r for r in official if r.case.optional]),
            ),
            "",
            "## Besides",
            ALSO,
        ]
    )


def _table(head: Sequence[str], rows: Iterator[Sequence[object]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def _keywords(results: Sequence[Result]) -> Iterator[Sequence[object]]:
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        if result.judged.made is not None:
            found = coverage(result.judged.schema, result.judged.made)
            counts.update((place.keyword, place.by) for place in found.places)
    for keyword in sorted(ASSERTIONS):
        engines = [
            name
            for name, held in (("xgrammar", XGRAMMAR_KEYWORDS), ("llguidance", HELD))
            if keyword in held
        ]
        masked, checked = counts[keyword, "mask"], counts[keyword, "check"]
        where = ADVICE[keyword][0] if keyword in ADVICE else ""
        yield f"`{keyword}`", ", ".join(engines) or "rewritten", masked, checked, where


def _totals(results: Sequence[Result]) -> Iterator[Sequence[object]]:
    outcomes = Counter(r.judged.outcome for r in results)
    engines = Counter(r.judged.engine for r in results if r.judged.outcome == "masked")
    yield "masked wholly, by xgrammar", engines["xgrammar"]
    yield "masked wholly, by llguidance", engines["llguidance"]
    yield "some keywords checked", outcomes["residual"]
    yield "refused", outcomes["refused"]
    yield "let an invalid instance through masks and check", _with(results, "through")
    yield (
        "wholly masked, let an invalid instance through the masks alone",
        _with(results, "unsound"),
    )
    yield "valid instances not reachable, by decision", _with(results, "closed")
    yield "valid instances not reachable, otherwise", _with(results, "strict")


def _with(results: Sequence[Result], what: str) -> int:
    """How many schemas have an instance of which it is so."""
    return sum(any(_is(r, at, what) for at in range(len(r.judged.instances))) for r in results)


def _is(result: Result, at: int, what: str) -> bool:
    instance = result.judged.instances[at]
    if what == "through":
        return instance.taken and instance.passed and not instance.valid
    if what == "unsound":
        return result.judged.outcome == "masked" and instance.taken and not instance.passed
    unreachable = instance.passed and not instance.taken
    return unreachable and instance.by_decision == (what == "closed")


def _sum(results: Sequence[Result], what: str) -> int:
    return sum(_is(r, at, what) for r in results for at in range(len(r.judged.instances)))


def _files(results: Sequence[Result]) -> Iterator[Sequence[object]]:
    groups = dict.fromkeys((r.case.source, r.case.group) for r in results)
    for source, group in sorted(groups):
        some = [r for r in results if (r.case.source, r.case.group) == (source, group)]
        outcomes = Counter(r.judged.outcome for r in some)
        engines = Counter(r.judged.engine for r in some if r.judged.outcome == "masked")
        yield (
            f"{source.removeprefix('draft')} {group}",
            len(some),
            engines["xgrammar"],
            engines["llguidance"],
            outcomes["residual"],
            outcomes["refused"],
            sum(len(r.judged.instances) for r in some),
            _sum(some, "through"),
            _sum(some, "strict") + _sum(some, "closed"),
            _sum(some, "closed"),
        )


def _formats(results: Sequence[Result]) -> Iterator[Sequence[object]]:
    for group in sorted({r.case.group for r in results}):
        some = [r for r in results if r.case.group == group]
        outcomes = Counter(r.judged.outcome for r in some)
        wrong = sum(i.valid != i.passed for r in some for i in r.judged.instances)
        yield (
            group,
            len(some),
            outcomes["masked"],
            outcomes["residual"],
            sum(len(r.judged.instances) for r in some),
            wrong,
            _sum(some, "strict"),
        )


def main() -> None:
    directory = tiny_model()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    size = transformers.AutoConfig.from_pretrained(directory).vocab_size
    ends = transformers.GenerationConfig.from_pretrained(directory).eos_token_id
    vocabulary = make_vocabulary(tokenizer, size, ends)
    judge = Judge(Compiler.from_vocabulary(vocabulary, cache_bytes=2**26), vocabulary)
    official = schema_suites.judged(schema_suites.suite(), judge)
    real = schema_suites.judged(schema_suites.maskbench(), judge)
    opened = schema_suites.judged(schema_suites.maskbench(), judge, open_objects=True)
    text = document(official, real, opened)
    PATH.write_text(text, encoding="utf-8")
    print(f"wrote {PATH.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()

"""docs/reference/schema-support.md, made of what the suite and the real schemas have shown.

`make docs` writes it; a test compares it with what is found anew.
"""

import sys
from pathlib import Path

import yaml
from scripts import schema_support_counts as counts

from tests.models import ROOT, tiny_model
from tests.support.markdown import table
from tests.support.schemas import suites as schema_suites
from tests.support.schemas.judge import Judge
from tests.support.schemas.suites import verdicts_by_form
from tests.support.vocabularies import vocabulary_of
from toolgate_backend.grammars.compiler import Compiler

PATH = ROOT / "docs" / "reference" / "schema-support.md"

TEXTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def document(official, real, opened, tools):
    """`tools`: the verdicts on the schemas of real tools, by dialect."""
    return "\n".join(
        [
            TEXTS["head"],
            "## Keywords",
            "",
            f"Occurrences that apply to an instance, in {len(real):,} real schemas (MaskBench): "
            "masked, validated, and when they are validated.",
            "",
            *counts.keywords(real),
            "",
            "## Real schemas",
            "",
            "Schemas of MaskBench, in parentheses with `TOOLGATE_OPEN_OBJECTS`:",
            "",
            *(
                f"- {what}: {n} ({m})"
                for (what, n), (_, m) in zip(
                    counts.totals(real), counts.totals(opened), strict=True
                )
            ),
            "",
            f"{len(next(iter(tools.values()))):,} input schemas of real tools, by the form in "
            "which a model writes calls: masked, some keywords validated, refused.",
            "",
            *counts.forms(tools),
            "",
            "## The official suite",
            "",
            "JSON-Schema-Test-Suite, all required tests, by draft. *Invalid passed*: invalid "
            "instances that pass masks and validation. *Excluded*: valid instances that masks do "
            "not allow, and how many of these by decision.",
            "",
            table(TEXTS["columns"], counts.drafts([r for r in official if not r.case.optional])),
            "",
            *counts.formats([r for r in official if r.case.optional]),
            "",
            "## Valid, but forbidden on purpose",
            "",
            f"Of the {counts.valid(real):,} valid instances of the real schemas (for formats: of "
            "the suite), masks refuse, as given ([exactness](../results/results.md#exactness)):",
            "",
            *_purposes(official, real),
            "",
            TEXTS["also"],
        ]
    )


def _purposes(official, real):
    instances = [instance for r in real for instance in r.judged.instances if instance.passed]
    for each in TEXTS["purposes"]:
        kind, *names = each.get("counted", "").split() or [""]
        if kind == "format":
            some = [r for r in official if r.case.optional and r.case.group in names]
            count = counts.instances(some, "strict")
        elif kind == "compact":
            count = sum(not instance.compact for instance in instances)
        else:
            count = sum(instance.cause == kind for instance in instances)
        yield f"- {each['what']}{f': {count}' if kind else ''}. {each['why']}"


def main():
    vocabulary = vocabulary_of(str(tiny_model()))
    judge = Judge(Compiler.from_vocabulary(vocabulary, cache_bytes=2**26), vocabulary)
    official = schema_suites.judged(schema_suites.suite(), judge)
    real = schema_suites.judged(schema_suites.maskbench(), judge)
    opened = schema_suites.judged(schema_suites.maskbench(), judge, open_objects=True)
    text = document(official, real, opened, verdicts_by_form())
    PATH.write_text(text, encoding="utf-8")
    print(f"wrote {PATH.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()

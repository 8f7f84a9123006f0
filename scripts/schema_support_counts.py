"""What docs/reference/schema-support.md counts, as rows of its tables."""

from collections import Counter
from typing import Literal, NamedTuple

from toolgate_core.dialects.registry import DIALECTS, form_of
from toolgate_core.pointer import escape
from toolgate_core.schema.keywords import ASSERTIONS, DEFINITIONS
from toolgate_core.schema.preparation.engine_form import KNOWN_FORMATS
from toolgate_core.schema.walk import reachable, subschemas
from toolgate_proxy.ops.admin.advice import ADVICE


def valid(results):
    return sum(instance.passed for r in results for instance in r.judged.instances)


def keywords(results):
    counts = Counter()
    for result in results:
        if result.judged.made is not None:
            found = coverage(result.judged.schema, result.judged.made)
            counts.update((each.keyword, each.enforced_by) for each in found)
    first = {}
    for keyword in sorted(ASSERTIONS):
        masked, checked = counts[keyword, "masks"], counts[keyword, "validation"]
        where = ADVICE[keyword][0] if keyword in ADVICE else ""
        before = first.setdefault(where, keyword)
        known = bool(where) and before != keyword
        why = f". As `{before}`." if known else f". {where}" if where else ""
        yield f"- `{keyword}`: {masked}, {checked}{why}"


def totals(results):
    outcomes = Counter(r.judged.outcome for r in results)
    engines = Counter(r.judged.engine for r in results if r.judged.outcome == "masked")
    yield "fully masked, by xgrammar", engines["xgrammar"]
    yield "fully masked, by llguidance", engines["llguidance"]
    yield "some keywords validated", outcomes["residual"]
    yield "refused", outcomes["refused"]
    yield "an invalid instance passes masks and validation", _schemas(results, "through")
    yield ("fully masked, an invalid instance passes the masks", _schemas(results, "unsound"))
    yield "valid instances excluded, by decision", _schemas(results, "closed")
    yield "valid instances excluded, otherwise", _schemas(results, "strict")


def forms(tools):
    """One line for all forms with the same verdicts."""
    found = {}
    for name, verdicts in tools.items():
        calls = DIALECTS[name].calls
        assert calls is not None
        ready = [verdict for verdict in verdicts if verdict.status == "ready"]
        checked = [verdict for verdict in ready if verdict.residual]
        keywords = Counter(each.keyword for verdict in checked for each in verdict.residual)
        masked, refused = len(ready) - len(checked), len(verdicts) - len(ready)
        validated = ", ".join(f"`{keyword}` {count}" for keyword, count in keywords.most_common())
        result = f"{masked}, {len(checked)}, {refused}. Validated: {validated}"
        found.setdefault(result, []).append(f"{form_of(calls.codec)} (`{name}`)")
    for result, names in found.items():
        yield f"- {', '.join(names)}: {result}"


def _schemas(results, what):
    """How many schemas have an instance of which it is so."""
    return sum(any(_is(r, at, what) for at in range(len(r.judged.instances))) for r in results)


def _is(result, at, what):
    instance = result.judged.instances[at]
    if what == "through":
        return instance.taken and instance.passed and not instance.valid
    if what == "unsound":
        return result.judged.outcome == "masked" and instance.taken and not instance.passed
    unreachable = instance.passed and not instance.taken
    return unreachable and instance.by_decision == (what == "closed")


def instances(results, what):
    """How many instances it is so of."""
    return sum(_is(r, at, what) for r in results for at in range(len(r.judged.instances)))


def drafts(results):
    for source in sorted({r.case.source for r in results}):
        some = [r for r in results if r.case.source == source]
        outcomes = Counter(r.judged.outcome for r in some)
        engines = Counter(r.judged.engine for r in some if r.judged.outcome == "masked")
        yield (
            source.removeprefix("draft"),
            len(some),
            engines["xgrammar"],
            engines["llguidance"],
            outcomes["residual"],
            outcomes["refused"],
            sum(len(r.judged.instances) for r in some),
            instances(some, "through"),
            instances(some, "strict") + instances(some, "closed"),
            instances(some, "closed"),
        )


def formats(results):
    masked = {r.case.group for r in results if r.judged.outcome == "masked"}
    validated = {r.case.group for r in results} - masked
    judged = [(i.valid, i.passed) for r in results for i in r.judged.instances]
    wrong = sum(valid != passed for valid, passed in judged)
    yield (
        f"Formats (optional tests of the suite, {len(judged):,} instances, {wrong} wrong). "
        f"Masked: {', '.join(sorted(masked))}. Validated: {', '.join(sorted(validated))}."
    )


EnforcedBy = Literal["masks", "validation", "nothing"]


class KeywordCoverage(NamedTuple):
    """One occurrence of a keyword."""

    pointer: str
    """JSON Pointer of the keyword."""
    keyword: str
    enforced_by: EnforcedBy
    """`masks`: no violating token is sampled. `validation`: masks can't enforce it, the completed
    call is validated. `nothing`: it asserts nothing in this place."""


def coverage(schema, prepared):
    """The coverage of a normalised schema (`document`). `prepared` is its prepared form."""
    removed = {occurrence.pointer for occurrence in prepared.residual}
    used = {id(node) for _, node in reachable(schema)}
    return [
        KeywordCoverage(pointer, keyword, _enforced_by(pointer, keyword, value, removed))
        if id(node) in used
        else KeywordCoverage(pointer, keyword, "nothing")
        for at, node in subschemas(schema)
        if isinstance(node, dict)
        for keyword, value in node.items()
        if keyword not in DEFINITIONS and (pointer := f"{at}/{escape(keyword)}")
    ]


def _enforced_by(pointer, keyword, value, removed):
    if keyword not in ASSERTIONS or (keyword == "format" and value not in KNOWN_FORMATS):
        return "nothing"
    if pointer in removed or any(_is_inside(pointer, other) for other in removed):
        return "validation"
    return "masks"


def _is_inside(pointer, other):
    """Keywords inside a residual `oneOf` do not count: masks enforce it as `anyOf`."""
    return pointer.startswith(f"{other}/") and not other.endswith("/oneOf")

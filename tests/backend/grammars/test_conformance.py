"""The official suite and real schemas: nothing invalid gets past masks and check together."""

from collections import Counter
from itertools import islice

import pytest
from scripts.schema_support_page import document

from tests.models import ROOT
from tests.support.dialects.model import DialectModel
from tests.support.effort import SAMPLE, repeats, rotating
from tests.support.installed import needs
from tests.support.schemas import suites as schema_suites
from tests.support.schemas.suites import FORMS, real_tools, verdicts_by_form
from tests.support.shared_data import BFCL, MASKBENCH, SUITE, TOOLS, records
from toolgate_backend.errors import GrammarRefused
from toolgate_backend.grammars.offline import verdicts
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.tools import parse_tools

# --- conformance ---
pytestmark = pytest.mark.exhaustive

ASSERTED = {"format", "vocabulary"}
"""`format` asserts here, and so do all keywords whatever meta-schema is named: those files' tests
say the opposite, as the specification lets one choose."""


STEP = repeats(6, nightly=1)
"""The suite's schemas that are judged: one in so many, by the commit."""


def part(cases, step):
    return islice(cases, SAMPLE % step, None, step)


@pytest.fixture(scope="module")
def official(judge):
    return schema_suites.judged(part(schema_suites.suite(), STEP), judge)


@pytest.fixture(scope="module")
def whole(judge):
    return schema_suites.judged(schema_suites.suite(), judge)


@pytest.fixture(scope="module")
def real(judge):
    return schema_suites.judged(schema_suites.maskbench(), judge)


@pytest.fixture(scope="module")
def opened(judge):
    """Real schemas, with TOOLGATE_OPEN_OBJECTS."""
    return schema_suites.judged(schema_suites.maskbench(), judge, open_objects=True)


@pytest.fixture(scope="module")
def sample(judge):
    """One real schema in 32, by the commit."""
    cases = part(schema_suites.maskbench(), repeats(64, nightly=3))
    return schema_suites.judged(cases, judge)


@pytest.fixture(scope="module")
def usual(judge):
    """One real schema in 16, always the same: a share of few depends on which they are."""
    cases = islice(schema_suites.maskbench(), 0, None, repeats(16, nightly=3))
    return schema_suites.judged(cases, judge)


OFFICIAL = pytest.param("official", marks=needs(SUITE))
PART = pytest.param("sample", marks=needs(MASKBENCH))
USUAL = pytest.param("usual", marks=needs(MASKBENCH))
ALL = pytest.param("real", marks=[pytest.mark.slow, needs(MASKBENCH)])
OPENED = pytest.param("opened", marks=[pytest.mark.slow, needs(MASKBENCH)])


@pytest.fixture(params=[OFFICIAL, PART, ALL, OPENED])
def results(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=[OFFICIAL, PART, ALL])
def closed_results(request):
    """Of objects that are closed where a schema leaves them open."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=[USUAL, ALL, OPENED])
def real_results(request):
    return request.getfixturevalue(request.param)


def each(results):
    return ((result, instance) for result in results for instance in result.judged.instances)


def names(found):
    return [(r.case.group, r.case.name, i.text[:80]) for r, i in found]


def required(results):
    return [r for r in results if not r.case.optional and r.case.group not in ASSERTED]


def test_the_official_suite_is_loaded(official):
    assert len(official) > 500 // STEP
    assert sum(i.taken for _, i in each(official)) > 1_200 // STEP


def test_masks_and_validation_reject_every_invalid_instance(results):
    through = ((r, i) for r, i in each(required(results)) if not i.valid)
    assert not names((r, i) for r, i in through if i.taken and i.passed)


def test_validation_accepts_every_valid_instance(results):
    valid = ((r, i) for r, i in each(required(results)) if i.valid)
    assert not names((r, i) for r, i in valid if not i.passed)


def test_fully_masked_schemas_reject_every_invalid_instance(results):
    """Masks alone suffice; validation is not used."""
    masked = [r for r in results if r.judged.outcome == "masked"]
    assert not names((r, i) for r, i in each(masked) if i.taken and not i.passed)


def test_refused_suite_schemas_are_external_or_have_no_valid_instance(official):
    for result in official:
        if result.judged.outcome == "refused":
            leads_out = "nothing is fetched" in result.judged.reason
            assert leads_out or not any(valid for valid, _ in result.case.instances), result.case


def test_masks_reject_valid_instances_only_by_design(closed_results):
    """Objects with named properties are closed by design (decision 5)."""
    strict = [(r, i) for r, i in each(required(closed_results)) if i.passed and not i.taken]
    assert not names((r, i) for r, i in strict if not i.by_decision)


@pytest.mark.slow
def test_masks_of_open_objects_accept_every_valid_instance(opened):
    assert not names((r, i) for r, i in each(opened) if i.passed and not i.taken)


def test_nearly_all_real_schemas_are_fully_enforced_by_masks(real_results):
    outcomes = Counter(result.judged.outcome for result in real_results)
    assert outcomes["masked"] >= 0.85 * len(real_results)
    assert outcomes["refused"] < 0.01 * len(real_results)


@pytest.mark.slow
@needs(SUITE)
@needs(MASKBENCH)
def test_the_documented_table_matches_the_results(whole, real, opened):
    """`make docs` writes the table."""
    written = (ROOT / "docs" / "reference" / "schema-support.md").read_text(encoding="utf-8")
    assert written == document(whole, real, opened, verdicts_by_form())


# --- real tools ---
@needs(BFCL)
def test_real_tools_compile(compile_tool):
    tools = {}
    for case in records(BFCL):
        tools |= {tool.hash: tool for tool in parse_tools(case["tools"])}
    assert len(tools) > 1000
    refused = []
    for tool in [*tools.values()][:: repeats(41, nightly=1)]:
        try:
            compile_tool(tool)
        except GrammarRefused as error:
            refused.append((tool.name, error.reason))
    assert not refused


def answer(verdict):
    return verdict.status, verdict.code, verdict.pointer, verdict.residual


@needs(TOOLS)
@rotating("name", FORMS, one_in=6)
def test_verdicts_without_a_model(name):
    tools = real_tools(repeats(43, nightly=1))
    dialect = DIALECTS[name]
    compiler = DialectModel(dialect, mark_texts(dialect)).compiler
    live = [
        compiler.compile("key", tool["name"], canonical_json(tool["parameters"])).verdict
        for tool in tools
    ]
    differing = [
        (tool["parameters"], answer(one), answer(other))
        for tool, one, other in zip(tools, live, verdicts(name, tools), strict=True)
        if answer(one) != answer(other)
    ]
    assert not differing
    assert {each.status for each in live} >= {"ready"}

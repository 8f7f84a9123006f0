"""The official suite and real schemas: nothing invalid gets past masks and check together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

from tests.models import ROOT
from tests.support.effort import repeats
from tests.support.schemas import suites as schema_suites
from tests.support.schemas.judge import Instance, Judge
from tests.support.schemas.suites import Case, Result, verdicts_by_form
from tests.support.schemas.support_page import document

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        not schema_suites.SUITE.exists(),
        reason="needs the suite and MaskBench below $TOOLGATE_SHARED",
    ),
]

ASSERTED = {"format", "vocabulary"}
"""`format` asserts here, and so do all keywords whatever meta-schema is named: those files' tests
say the opposite, as the specification lets one choose."""


@pytest.fixture(scope="module")
def official(judge: Judge) -> list[Result]:
    return schema_suites.judged(schema_suites.suite(), judge)


@pytest.fixture(scope="module")
def real(judge: Judge) -> list[Result]:
    return schema_suites.judged(schema_suites.maskbench(), judge)


@pytest.fixture(scope="module")
def opened(judge: Judge) -> list[Result]:
    """Real schemas, with TOOLGATE_OPEN_OBJECTS."""
    return schema_suites.judged(schema_suites.maskbench(), judge, open_objects=True)


@pytest.fixture(scope="module")
def sample(judge: Judge) -> list[Result]:
    """One real schema in sixteen."""
    step = repeats(16, nightly=3)
    return schema_suites.judged(islice(schema_suites.maskbench(), 0, None, step), judge)


ALL = pytest.param("real", marks=pytest.mark.slow)
OPENED = pytest.param("opened", marks=pytest.mark.slow)


@pytest.fixture(params=["official", "sample", ALL, OPENED])
def results(request: pytest.FixtureRequest) -> list[Result]:
    found: list[Result] = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["official", "sample", ALL])
def closed_results(request: pytest.FixtureRequest) -> list[Result]:
    """Of objects that are closed where a schema leaves them open."""
    found: list[Result] = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["sample", ALL, OPENED])
def real_results(request: pytest.FixtureRequest) -> list[Result]:
    found: list[Result] = request.getfixturevalue(request.param)
    return found


def each(results: list[Result]) -> Iterator[tuple[Result, Instance]]:
    return ((result, instance) for result in results for instance in result.judged.instances)


def names(found: Iterator[tuple[Result, Instance]]) -> list[tuple[str, str, str]]:
    return [(r.case.group, r.case.name, i.text[:80]) for r, i in found]


def required(results: list[Result]) -> list[Result]:
    return [r for r in results if not r.case.optional and r.case.group not in ASSERTED]


def test_the_official_suite_is_loaded(official: list[Result]) -> None:
    assert len(official) > 500
    assert sum(i.taken for _, i in each(official)) > 1_500


def test_masks_and_validation_reject_every_invalid_instance(results: list[Result]) -> None:
    through = ((r, i) for r, i in each(required(results)) if not i.valid)
    assert not names((r, i) for r, i in through if i.taken and i.passed)


def test_validation_accepts_every_valid_instance(results: list[Result]) -> None:
    valid = ((r, i) for r, i in each(required(results)) if i.valid)
    assert not names((r, i) for r, i in valid if not i.passed)


def test_fully_masked_schemas_reject_every_invalid_instance(results: list[Result]) -> None:
    """Masks alone suffice; validation is not used."""
    masked = [r for r in results if r.judged.outcome == "masked"]
    assert not names((r, i) for r, i in each(masked) if i.taken and not i.passed)


def test_refused_suite_schemas_are_external_or_have_no_valid_instance(
    official: list[Result],
) -> None:
    for result in official:
        if result.judged.outcome == "refused":
            leads_out = "nothing is fetched" in result.judged.reason
            assert leads_out or not any(valid for valid, _ in result.case.instances), result.case


def test_masks_reject_valid_instances_only_by_design(closed_results: list[Result]) -> None:
    """Objects with named properties are closed by design (decision 5)."""
    strict = [(r, i) for r, i in each(required(closed_results)) if i.passed and not i.taken]
    assert not names((r, i) for r, i in strict if not i.by_decision)


@pytest.mark.slow
def test_masks_of_open_objects_accept_every_valid_instance(opened: list[Result]) -> None:
    assert not names((r, i) for r, i in each(opened) if i.passed and not i.taken)


def test_nearly_all_real_schemas_are_fully_enforced_by_masks(real_results: list[Result]) -> None:
    outcomes = Counter(result.judged.outcome for result in real_results)
    assert outcomes["masked"] >= 0.85 * len(real_results)
    assert outcomes["refused"] < 0.01 * len(real_results)


@pytest.mark.slow
def test_the_documented_table_matches_the_results(
    official: list[Result], real: list[Result], opened: list[Result]
) -> None:
    """`make docs` writes the table."""
    written = (ROOT / "docs" / "reference" / "schema-support.md").read_text(encoding="utf-8")
    assert written == document(official, real, opened, verdicts_by_form())


def test_a_case_is_a_schema_with_instances() -> None:
    case = next(schema_suites.suite())
    assert isinstance(case, Case)
    assert case.instances

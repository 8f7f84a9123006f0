"""How often a check repeats itself: `make test` has minutes, `make test-nightly` has hours.

Of a matrix, `make test` runs a part that depends on the commit: a few commits see all of it.
"""

import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("TOOLGATE_TEST_NIGHTLY") == "1"
FAST = os.environ.get("TOOLGATE_TEST_FAST") == "1"
ONE_IN = 4
"""Of so many cases of a file, `make test-fast` runs one."""
SETTING = "TOOLGATE_TEST_SAMPLE"


def _sample() -> int:
    """Return the number that chooses the part of each matrix: the setting's, or the commit's."""
    if given := os.environ.get(SETTING):
        return int(given)
    command = ["git", "rev-parse", "HEAD"]
    folder = Path(__file__).parent
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return int(done.stdout[:6] or "0", 16)


SAMPLE = _sample()


def repeats(usual: int, *, nightly: int) -> int:
    """The number of examples, walks or requests of a check."""
    return nightly if NIGHTLY else usual


def examples(usual: int, *, nightly: int) -> settings:
    """Settings for generated values that take long to make, such as schemas."""
    return settings(
        max_examples=repeats(usual, nightly=nightly),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def sampled(names: str, rows: Iterable[Any], columns: Iterable[Any], *, one_in: int) -> Any:
    """Mark a test with all combinations of a value of `rows` and one of `columns`.

    Of `one_in` combinations, all but one are slow; which one depends on the commit. Each row and
    each column has one that is not, if there are at least `one_in` of both."""
    return pytest.mark.parametrize(
        names,
        [
            pytest.param(row, column, marks=_mark(down + across, one_in))
            for down, row in enumerate(rows)
            for across, column in enumerate(columns)
        ],
    )


def rotating(names: str, values: Iterable[Any], *, one_in: int, **options: Any) -> Any:
    """Mark a test with all values. Of `one_in` neighbours, all but one are slow.

    Which one depends on the commit. `options` are those of pytest.mark.parametrize."""
    rows = list[Any]()
    for at, value in enumerate(values):
        given = value if hasattr(value, "marks") else pytest.param(*_tuple(names, value))
        marks = [*given.marks, *_mark(at, one_in)]
        rows.append(pytest.param(*given.values, marks=marks, id=given.id))
    return pytest.mark.parametrize(names, rows, **options)


def by_turns(at: int, *, one_in: int) -> Any:
    """Mark one of `one_in` tests that take long: all but one of them are slow, by the commit."""
    return lambda test: reduce(lambda marked, mark: mark(marked), _mark(at, one_in), test)


def _tuple(names: str, value: Any) -> tuple[Any, ...]:
    return tuple(value) if "," in names else (value,)


def _mark(at: int, one_in: int) -> list[Any]:
    return [pytest.mark.slow] if (at + SAMPLE) % one_in else []


def part_of(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases that `make test-fast` runs: of each file one or more, by the commit."""
    cases, seen = Counter(item.path for item in items), Counter[Path]()
    for item in items:
        if seen[item.path] % ONE_IN == SAMPLE % min(cases[item.path], ONE_IN):
            yield item
        seen[item.path] += 1

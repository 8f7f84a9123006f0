"""Terms of checks: APIs, suites, severities, verdicts."""

from __future__ import annotations

from enum import StrEnum


class Api(StrEnum):
    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"


class Suite(StrEnum):
    QUICK = "quick"
    FULL = "full"


class Severity(StrEnum):
    CRITICAL = "critical"
    """A client executes a wrong call, or takes broken data for valid data."""
    MAJOR = "major"
    """A client that follows the specification fails or loses data."""
    MINOR = "minor"
    """A deviation that most clients tolerate."""


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    REFUSED = "refused"
    """The server refused the request with a 4xx. It lacks the feature, and reports that."""
    SKIP = "skip"
    """The answers do not show whether the rule holds, or the check did not run."""


class Failed(Exception):
    """The rule is broken. The message states what came instead."""


class Refused(Exception):
    """The request was refused with a 4xx."""


class Skipped(Exception):
    """The answers do not show whether the rule holds."""


def require(condition: object, problem: str) -> None:
    """Raise Failed with the problem if the condition is false."""
    if not condition:
        raise Failed(problem)

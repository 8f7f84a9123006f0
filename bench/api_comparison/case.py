"""A case: one field, event or operation of an API, and how a server is asked about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .client import Body, Client, Reply

Check = Callable[[Client], bool]


class Refused(Exception):
    """The server answered with an error. `reply` is the answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.text)
        self.reply = reply


@dataclass(frozen=True)
class Case:
    group: str
    """The section of the table."""
    name: str
    check: Check
    """Whether the server does what the API's documentation says. Raises Refused for an error,
    and any other exception for an answer that is not in the API's form."""


def ok(reply: Reply) -> Reply:
    """Raises Refused unless the status is 200."""
    if reply.status != 200:
        raise Refused(reply)
    return reply


def refused(group: str, name: str, body: Body, *paths: str) -> Case:
    """A request that must be a 400 (or 404, 413, 422) in the API's form that names one of
    `paths`. A server that answers it has ignored what is wrong with it."""

    def check(client: Client) -> bool:
        reply = client.post(body)
        if reply.status == 200:
            return False
        if not 400 <= reply.status < 500:
            raise Refused(reply)
        error = reply.body.get("error") or {}
        shown = f"{error.get('param')} {error.get('message')}"
        return any(path in shown for path in paths)

    return Case(group, name, check)


def outcome(case: Case, client: Client) -> str:
    """`yes`; `no`: accepted without the documented effect; or the status of the error."""
    try:
        return "yes" if case.check(client) else "no"
    except Refused as refusal:
        return str(refusal.reply.status or "no answer")
    except Exception as error:  # noqa: BLE001 - the answer lacks what the check reads
        return f"broken ({type(error).__name__})"


def run(cases: Sequence[Case], client: Client) -> dict[str, str]:
    return {f"{case.group}|{case.name}": outcome(case, client) for case in cases}

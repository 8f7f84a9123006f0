"""Scenarios: requests whose answers serve several checks. Each scenario runs once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .asking.ask import Ask
from .exchange import Exchange, Request
from .reading import read, sse
from .reading.answer import Answer, Unreadable
from .terms import Api, Failed, Refused, Skipped


@dataclass(frozen=True)
class Scenario:
    name: str
    """`API.NAME`."""
    api: Api
    requests: tuple[Request, ...]
    """Sent at the same time."""
    ask: Ask | None = None
    """The request in neutral form, if the scenario has one."""
    follow: Callable[[Evidence], tuple[Request, ...]] | None = None
    """Further requests, made from the answers to the first ones."""
    followers: int = 0
    """The maximum number of further requests, for estimates."""
    in_order: bool = False
    """Whether further requests are sent one after another."""
    alone: bool = False
    """Whether no other scenario runs at the same time."""

    @property
    def count(self) -> int:
        return len(self.requests) + self.followers


@dataclass
class Evidence:
    """The exchanges of one scenario, in the order of its requests."""

    scenario: Scenario
    exchanges: list[Exchange] = field(default_factory=list)
    reason: str = ""
    """Why there are no exchanges."""
    shown: Exchange | None = None
    """The exchange that was judged last. A failing check prints its `curl`."""

    @property
    def api(self) -> Api:
        return self.scenario.api

    @property
    def ask(self) -> Ask:
        assert self.scenario.ask is not None
        return self.scenario.ask

    def at(self, index: int) -> Exchange:
        """Return the exchange, whatever its status. Raise Skipped if it did not take place."""
        if index >= len(self.exchanges):
            raise Skipped("the request was not sent: an earlier answer left nothing to ask")
        self.shown = self.exchanges[index]
        return self.shown

    def ok(self, index: int) -> Exchange:
        """The exchange, if its status is 200. Raise Refused or Failed otherwise."""
        exchange = self.at(index)
        if exchange.problem:
            raise Failed(exchange.problem)
        if 400 <= exchange.status < 500 and exchange.status != 429:
            raise Refused(f"status {exchange.status}: {brief(exchange.text)}")
        if exchange.status != 200:
            raise Failed(f"status {exchange.status}: {brief(exchange.text)}")
        return exchange

    def answer(self, index: int) -> Answer:
        """Return the answer of an exchange in neutral form."""
        exchange = self.ok(index)
        try:
            return self._read(exchange)
        except Unreadable as error:
            raise Failed(str(error)) from error

    def body(self, index: int = 0) -> dict[str, Any]:
        """Return the body of a readable answer."""
        self.answer(index)
        body = self.ok(index).body
        assert isinstance(body, dict)
        return body

    def events(self, index: int = 1) -> list[dict[str, Any]]:
        """Return the data of the events of a stream."""
        try:
            return sse.data_of(sse.events(self.ok(index).text))
        except Unreadable as error:
            raise Failed(str(error)) from error

    def answers(self) -> list[Answer]:
        """Return the answers of all exchanges."""
        return [self.answer(index) for index in range(len(self.exchanges))]

    @property
    def whole(self) -> Answer:
        return self.answer(0)

    @property
    def streamed(self) -> Answer:
        return self.answer(1)

    def _read(self, exchange: Exchange) -> Answer:
        answer = self._answers.get(id(exchange))
        if answer is None:
            answer = self._answers[id(exchange)] = read(self.api, exchange)
        return answer

    @cached_property
    def _answers(self) -> dict[int, Answer]:
        return {}


def brief(text: str, limit: int = 240) -> str:
    """Return the text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"

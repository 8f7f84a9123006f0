"""A run as the command line asks for it: the settings, the model, the APIs, the progress.

Before it, fields are found that the server does not know and that are not the subject of a check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..asking import request
from ..asking.ask import Ask, User
from ..check import ALL, Check
from ..checks import all_checks, select
from ..checks.user_tools import checks_of, checks_of_samples
from ..exchange import Exchange
from ..scenario import Scenario
from ..terms import Api, Suite
from ..tools.user_tools import read_samples, read_tools
from .client import Client
from .run import Run, run, scenarios_of
from .target import Target, base_url

OPTIONAL = {
    Api.CHAT: ("reasoning_effort",),
    Api.RESPONSES: ("reasoning", "store"),
    Api.MESSAGES: ("thinking",),
}
"""Fields that the checks send with every request: they turn reasoning off and storage off."""


async def probe(client: Client, apis: Iterable[Api]) -> dict[Api, str]:
    """Send a short request to each API, and again without optional fields if it is refused. Fields
    that were refused are removed from all requests. Return the APIs that do not answer, with the
    reason."""
    missing: dict[Api, str] = {}
    for api in apis:
        exchange = await _short(client, api)
        if exchange.status in (400, 422):
            client.target = replace(client.target, without=client.target.without | {*OPTIONAL[api]})
            exchange = await _short(client, api)
        if exchange.status != 200:
            missing[api] = exchange.problem or f"status {exchange.status}: {exchange.text[:300]}"
    return missing


async def _short(client: Client, api: Api) -> Exchange:
    ask = Ask((User("Hi"),), max_tokens=4)
    scenario = Scenario(f"{api}.probe", api, (request(api, ask),), ask)
    return await client.send(scenario, scenario.requests[0], at_once=True)


class NotVerified(Exception):
    """There is nothing to verify. The message states why."""


@dataclass(frozen=True)
class Session:
    url: str
    model: str
    key: str
    api: str
    suite: str
    only: tuple[str, ...] = ()
    seed: int = 1
    extra: Mapping[str, Any] | None = None
    concurrency: int = 8
    timeout: float = 120.0
    max_requests: int | None = None
    tools: Path | None = None
    samples: Path | None = None

    @property
    def apis(self) -> tuple[Api, ...]:
        """Samples are chat completions."""
        if self.samples is not None:
            return (Api.CHAT,)
        return ALL if self.api == "all" else (Api(self.api),)

    @property
    def target(self) -> Target:
        model = self.model or "MODEL"
        return Target(base_url(self.url), model, self.key, self.extra or {}, self.seed)

    def checks(self) -> list[Check]:
        """Return the selected checks, and those of the user's tools. Raise ValueError, NoTools."""
        only_samples = self.samples is not None and not self.only
        chosen = [] if only_samples else select(self.apis, Suite(self.suite), self.only)
        return [*chosen, *self._own(self.apis)]

    def _own(self, apis: tuple[Api, ...]) -> list[Check]:
        """Return the checks of the user's tools and samples."""
        checks = checks_of(read_tools(self.tools), apis) if self.tools is not None else []
        if self.samples is not None:
            checks += checks_of_samples(read_samples(self.samples))
        return checks

    def every_check(self) -> list[Check]:
        return [*all_checks(), *self._own(ALL)]

    def check(self, name: str) -> Check:
        """Return a check by its ID. Raise ValueError."""
        check = next((each for each in self.every_check() if each.id == name), None)
        if check is None:
            raise ValueError(f"no check is named {name!r}; --list lists them")
        return check

    def settings(self) -> dict[str, Any]:
        """For the report, without the key."""
        hidden = ("key", "url", "model")
        values = {name: value for name, value in asdict(self).items() if name not in hidden}
        names = {name: each.name for name in ("tools", "samples") if (each := values[name])}
        return {**values, **names}


def verified(session: Session, console: Console) -> tuple[Run, Target]:
    """Run the session with a progress display. Raise NotVerified."""
    return asyncio.run(_verified(session, console))


async def _verified(session: Session, console: Console) -> tuple[Run, Target]:
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(limits=limits, follow_redirects=False, trust_env=False) as http:
        target = session.target
        if not session.model:
            target = Target(target.url, await _only_model(http, target), *_rest(target))
        client = Client(target, http, session.concurrency, session.max_requests, session.timeout)
        checks = await _usable(session, client, console)
        scenarios = scenarios_of(checks)
        with _progress(console) as progress:
            task = progress.add_task("scenarios", total=len(scenarios))
            result = await run(client, checks, lambda _: progress.advance(task))
        return result, client.target


def _rest(target: Target) -> tuple[str, Mapping[str, Any], int | None]:
    return target.key, target.extra, target.seed


async def _usable(session: Session, client: Client, console: Console) -> list[Check]:
    """Return the checks of the APIs that answer."""
    missing = await probe(client, session.apis)
    if len(missing) == len(session.apis):
        reasons = "; ".join(f"{api}: {reason}" for api, reason in missing.items())
        raise NotVerified(f"{client.target.url} does not answer a short request ({reasons})")
    for api, reason in missing.items():
        console.print(f"Without {api}: {reason}", markup=False)
    if client.target.without:
        names = ", ".join(sorted(client.target.without))
        console.print(f"The server does not accept {names}: left out of the requests.")
    return [check for check in session.checks() if check.api not in missing]


async def _only_model(http: httpx.AsyncClient, target: Target) -> str:
    headers = {"authorization": f"Bearer {target.key}"} if target.key else {}
    try:
        response = await http.get(f"{target.url}/models", headers=headers, timeout=15)
        names = [str(each["id"]) for each in response.json()["data"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise NotVerified(
            f"{target.url}/models does not list models; name one with --model"
        ) from error
    if len(names) != 1:
        raise NotVerified(f"name one of the models with --model: {', '.join(names)}")
    return names[0]


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )

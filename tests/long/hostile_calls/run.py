"""Hostile tool calls through the whole stack: all families, both adapters, three APIs.

    python -m tests.long hostile-calls --calls 100000 --out FILE
    python -m tests.long hostile-calls --seed 17                  # one of them again
    python -m tests.long hostile-calls --found --calls 5000       # only tools that were found
    python -m tests.long hostile-calls --families qwen3 glm45     # only seeds of these families

Each seed is a gateway and a backend with one adapter and a random model in the form of one family.
The tools are those of `walks`. The temperatures are 0 to 2, with biases that make the model
end its calls, or write the family's marks everywhere. Each response is checked: its calls parse and
satisfy their schemas, `tool_choice` is kept, content has no marks. In some requests a search has
found some of the tools, and only they are called. Given up are requests that end with the error
`tool_schema_violation`.

With --out, the outcome of each seed is a line of FILE, and seeds that it has are not run again.
Several runs with the same FILE can go on beside each other, from different seeds (--first), so that
one starts its servers while another one sends requests. The exit status is 1 if something is wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from random import Random

import httpx

from tests.long.hostile_calls.load import Load, biases
from tests.long.outcomes import Outcome, Runs, parser_of
from tests.models import ROOT, tiny_family
from tests.support.servers.contenders import Server, exit_on_sigterm, running
from toolgate_core.dialects import mark_texts
from toolgate_core.dialects.registry import DIALECTS

FAMILIES = [name for name, dialect in DIALECTS.items() if dialect.calls is not None]
Random("families").shuffle(FAMILIES)
ADAPTERS = ("logits_processor", "structured_output")
TIMEOUT = 300
"""Seconds within which a response must end."""


def labelled(outcomes: Iterable[Outcome]) -> list[str]:
    """Lines with what counts by the labels of the seeds."""
    families, adapters = set[str](), Counter[str]()
    for each in outcomes:
        families.add(each.labels["family"])
        adapters[each.labels["adapter"]] += each.counts["calls: complete"]
    calls = (f"Calls with {adapter}: {count:,}" for adapter, count in sorted(adapters.items()))
    return [f"Families: {len(families)}", *calls]


def settings(seed: int) -> tuple[str, str]:
    """Family and adapter: after all families, each with the other adapter."""
    rounds, at = divmod(seed, len(FAMILIES))
    return FAMILIES[at], ADAPTERS[(at + rounds) % 2]


def seeds_of(families: Container[str], first: int) -> Iterator[int]:
    """Yield the seeds of the families, from the first one on."""
    return (seed for seed in count(first) if settings(seed)[0] in families)


def run(seed: int, sets: int, concurrency: int, *, found: bool) -> Outcome:
    """Raises NotStarted."""
    family, adapter = settings(seed)
    outcome = Outcome(seed, labels={"family": family, "adapter": adapter})
    dialect = DIALECTS[family]
    model = ROOT / ".cache" / "models" / f"tiny-{family}"
    tiny_family.build(model, dialect)
    began = time.monotonic()
    with running("toolgate", model, label="hostile", env={"TOOLGATE_ADAPTER": adapter}) as server:
        drawn, markup = biases(dialect, model), mark_texts.markup(dialect)
        asyncio.run(_send(server, outcome, drawn, markup, sets, concurrency, found=found))
        if not server.alive():
            outcome.violations.append("the server died")
    outcome.seconds = time.monotonic() - began
    return outcome


async def _send(
    server: Server,
    outcome: Outcome,
    drawn: Sequence[dict[str, float]],
    markup: Sequence[str],
    sets: int,
    concurrency: int,
    *,
    found: bool,
) -> None:
    headers = {"authorization": f"Bearer {server.key}"}
    # The server closes a connection after five idle seconds, possibly while the client reuses it.
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=0)
    async with httpx.AsyncClient(
        base_url=server.url, headers=headers, timeout=TIMEOUT, trust_env=False, limits=limits
    ) as http:
        load = Load(http, server.model_name(), drawn, markup, outcome, found)
        await load.run(sets, concurrency)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--calls", type=int, default=1_000, help="complete calls in all")
    parser.add_argument("--sets", type=int, default=20, help="sets of tools of each seed")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--concurrency", type=int, default=48)
    parser.add_argument("--found", action="store_true", help="a search has found all tools")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES, metavar="NAME")
    options = parser.parse_args()
    exit_on_sigterm()
    started = partial(run, sets=options.sets, concurrency=options.concurrency, found=options.found)
    if options.seed is not None:
        runs = Runs()
        runs.add(started(options.seed))
    else:
        runs = Runs(options.out)
        while runs.total("calls: complete") < options.calls:
            runs.add(started(next(runs.missing(seeds_of(options.families, options.first)))))
            runs.reread()
    return runs.report("seeds", *labelled(runs.done.values()))

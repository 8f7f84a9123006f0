"""Tokens per second under enforcement for each form of arguments, with one large vocabulary.

    python -m bench codec-throughput TOKENIZER_DIR [--rounds N] [--streams N] > table.md

One backend for each form, with a small random model that has the vocabulary and the special tokens
of the family. Each round compares enforced responses (8 BFCL tools with strings, a call required)
with the same requests without enforcement. Prints Markdown: medians, and the median ratio of the
rounds with its 95 % bootstrap interval.
"""

import argparse
import asyncio
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx
from tests.models import tiny_family

from bench.growth.load import Load, Pair
from bench.growth.run import TOKENS, columns, compared, per_second, table
from bench.micro.codec_masks import FAMILIES
from bench.support.contenders import exit_on_sigterm, running
from bench.support.tools import small_tools
from toolgate_core.dialects.registry import DIALECTS
from toolgate_proxy.stack.processes import free_port

TOOLS = 8
KEY = secrets.token_urlsafe(24)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", type=Path, help="directory of the tokenizer")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--only", help="comma-separated families")
    options = parser.parse_args()
    exit_on_sigterm()
    wanted = options.only.split(",") if options.only else [*FAMILIES.values()]
    rows: list[list[object]] = []
    for form, family in FAMILIES.items():
        if family in wanted:
            pairs = measured(family, options.tokenizer, options.streams, options.rounds)
            rows.append([form, family, mean_tokens(pairs), *compared(pairs, per_second, digits=0)])
    print(table(["form", "family", "tokens per response", *columns("tokens/s")], rows))


def measured(family: str, tokenizer: Path, streams: int, rounds: int) -> list[Pair]:
    with tempfile.TemporaryDirectory(prefix="toolgate-") as folder:
        model = Path(folder) / f"tiny-{family}"
        tiny_family.build(model, DIALECTS[family], source=tokenizer)
        port = free_port()
        flags = ("--max-num-seqs", str(streams), "--backend-port", str(port))
        env = {"TOOLGATE_BACKEND_KEY": KEY, "TOOLGATE_DIALECT": family}
        with running("toolgate", model, flags=flags, env=env, label="codecs"):
            return asyncio.run(paired(f"http://127.0.0.1:{port}", streams, rounds))


async def paired(url: str, streams: int, rounds: int) -> list[Pair]:
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=600, trust_env=False
    ) as http:
        load = Load(http)
        candidates = await load.backend.load(small_tools(TOOLS))
        await load.pair(candidates, streams, TOKENS, 0)  # warm up caches
        return [await load.pair(candidates, streams, TOKENS, number) for number in range(rounds)]


def mean_tokens(pairs: Sequence[Pair]) -> str:
    """Mean length of the enforced responses."""
    lengths = [stream.tokens for pair in pairs for stream in pair.enforced.streams]
    return f"{sum(lengths) / len(lengths):.0f}"

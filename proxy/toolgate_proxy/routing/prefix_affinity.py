"""Sends prompts with the same prefix, or with the same `prompt_cache_key`, to the deployment that
has cached the prefix: by hashes of its prefixes, and the load of the deployments.

Decision 15 compares it with LiteLLM's check (`prompt_caching` in `optional_pre_call_checks`), which
supports only Anthropic's markers and reads Redis for each request.

Weighted rendezvous hashing gives each prefix its own ranking of the deployments. The ranking is the
same in every process, and changes little when a deployment is added or removed. Requests with the
same head go to the first deployment of the head's ranking, as long as it has capacity for all of
them. Otherwise they use as many deployments of the ranking as necessary. Among these the hash of
the conversation decides, so all its turns go to the same one. A deployment with clearly more
in-flight requests than its share is skipped.

Hashes need no secret, so that they are the same in every process, and stay in the memory of this
one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate, chain, takewhile
from typing import Any

import orjson

from .. import metrics
from ..request_fields import without_deferred
from .deployments import Deployments, Placement

MIN_BYTES = 1024
"""Minimum size of a prefix, about 250 tokens. Shorter prompts need no cache."""
MAX_BYTES = 1_000_000
"""Size to which a prefix is cut, as hashing takes time. Equal ones share most of a cache."""

HEAD_FIELDS = ("cache_salt", "tools", "system", "instructions")
"""Fields that precede the messages in every prompt. A `cache_salt` separates caches."""
MARK = "cache_control"
"""Clients move it to the last message of a conversation."""
TEXTS = ("content", "text")
EMPTY = {"type": "text", "text": ""}
LEADING_ROLES = ("system", "developer")
BILLING = "x-anthropic-billing-header:"
"""Begins a line that Claude Code puts into the system prompt, for Anthropic's accounting. The line
changes with each request. Gateways in front of this one join it with the texts around it."""
BILLING_LINE = re.compile(rf"^{re.escape(BILLING)}[^\n]*\n?", re.MULTILINE)
KEY = "prompt_cache_key"
"""The client's name for requests that share a prefix, in OpenAI's APIs."""


@dataclass(frozen=True)
class PrefixHashes:
    """Hashes of two prefixes of a prompt. Later turns of a conversation have the same hashes."""

    head: bytes
    """Tools and system prompt, which many conversations share. If they are shorter than
    `MIN_BYTES`, the first `MIN_BYTES` of the prompt. With a `prompt_cache_key`, the key."""
    conversation: bytes
    """The prompt up to the end of the first user message. The key of a short prompt with one."""


def hash_request(
    request: Mapping[str, Any], *, owner: str = "", shared: bool = False
) -> PrefixHashes | None:
    """Return the hashes by which a deployment is chosen. A `prompt_cache_key` takes the place of
    the head: requests of one owner with the same key go to the same deployment while it has
    capacity for all of them. If it has not, the conversations are spread, as those with one head
    are.

    `owner`: the key or team that sent the request; `shared`: whether all owners share the prefix
    caches. Otherwise the hashes of different owners differ, as their caches do. Return None for a
    short prompt without key."""
    prefix = hash_prefixes(request, owner="" if shared else owner)
    key = request.get(KEY)
    if not isinstance(key, str) or not key:
        return prefix
    head = _hash(f"{KEY}\0{key}".encode("utf-8", "surrogatepass"), owner)
    return PrefixHashes(head, head if prefix is None else prefix.conversation)


def hash_prefixes(request: Mapping[str, Any], *, owner: str = "") -> PrefixHashes | None:
    """Hash the prefixes of a prompt. `request`: the body of a chat, responses or messages request.
    Return None for a short prompt."""
    turns = request.get("messages") or request.get("input")
    if isinstance(turns, str):
        turns = [turns]
    if not isinstance(turns, Sequence):
        return None
    data = bytearray()
    for name in HEAD_FIELDS:
        if request.get(name):
            data += _bytes(request[name])
    remaining = iter(turns)
    first = _add_system_messages(remaining, data)
    head_length = max(len(data), MIN_BYTES)
    for message in chain(first, remaining):
        data += _bytes(message)
        if len(data) >= MIN_BYTES:
            break
    if len(data) < MIN_BYTES:
        return None
    head = data[: min(head_length, MAX_BYTES)]
    return PrefixHashes(_hash(head, owner), _hash(data[:MAX_BYTES], owner))


def _add_system_messages(messages: Iterable[Any], data: bytearray) -> list[Any]:
    """Add the leading system messages to `data`. Return a list with the message after them."""
    for message in messages:
        if not isinstance(message, Mapping) or message.get("role") not in LEADING_ROLES:
            return [message]
        data += _bytes(message)
    return []


def _bytes(value: object) -> bytes:
    value = _without_marks(value)
    try:
        return orjson.dumps(value, default=repr)
    except TypeError:  # a lone surrogate, a number beyond 64 bits
        return repr(value).encode("utf-8", "surrogatepass")


def without_billing(text: str) -> str:
    """Return a text without the lines of BILLING, and without their line ends."""
    return BILLING_LINE.sub("", text) if BILLING in text else text


def _without_marks(value: object) -> object:
    """Return a message, tools or a system prompt without what changes from turn to turn and is no
    part of the prompt's beginning: what only Anthropic's API needs, and deferred tools. Claude Code
    adds those that it has found to its tools."""
    if isinstance(value, str):
        return without_billing(value)
    if isinstance(value, list):
        kept = (_without_marks(each) for each in without_deferred(value))
        return [each for each in kept if each != EMPTY]
    if isinstance(value, Mapping):
        return {
            name: _without_marks(inner) if name in TEXTS else inner
            for name, inner in value.items()
            if name != MARK
        }
    return value


def _hash(data: bytes | bytearray, owner: str) -> bytes:
    key = hashlib.blake2b(owner.encode("utf-8", "surrogatepass")).digest() if owner else b""
    return hashlib.blake2b(data, digest_size=16, key=key).digest()


MIN_CAPACITY = 4.0
"""In-flight requests that any deployment may have, even if the others have fewer."""
MAX_SHARE = 1.25
"""Maximum of a deployment's in-flight requests, relative to its share of all."""
SMOOTHING = 64
"""Number of requests over which the number of in-flight requests is averaged."""
RANKINGS = 1024
"""Number of heads whose rankings are kept."""
HALF_LIFE = 1024
"""Number of requests after which earlier ones count half in the frequencies of heads."""


@dataclass(frozen=True)
class RankedDeployment:
    """The current state of a deployment."""

    name: str
    """Unique among the deployments of a model, and the same in every gateway."""
    weight: float
    """Greater than 0."""
    requests: int
    """Number of in-flight requests, those of other gateways included."""


class Rendezvous:
    """State of one model in one process: the frequencies of heads, but not where they were sent."""

    def __init__(self) -> None:
        self._heads: Counter[bytes] = Counter()
        self._seen = 0
        self._average_in_flight: float = 0

    def choose(
        self, hashes: PrefixHashes, deployments: Sequence[RankedDeployment]
    ) -> tuple[RankedDeployment, bool]:
        """Return a deployment, and whether it is the first in the prompt's ranking. `deployments`
        must not be empty."""
        in_flight = sum(each.requests for each in deployments)
        weights = sum(each.weight for each in deployments)
        demand = self._note(hashes.head, in_flight)
        ranked = _ranked_by_head(hashes.head, deployments)
        capacities = accumulate(
            _capacity(each, self._average_in_flight, weights) for each in ranked
        )
        size = 1 + sum(1 for _ in takewhile(lambda capacity: capacity < demand, capacities))
        # The later ones are ranked only if one of them is needed: there may be hundreds.
        parts = map(partial(_ranked, hashes.conversation), (ranked[:size], ranked[size:]))
        preferred = next(parts)
        order = chain(preferred, chain.from_iterable(parts))
        # The sum of the capacities exceeds the number of in-flight requests, so one has capacity.
        free = (each for each in order if each.requests < _capacity(each, in_flight + 1, weights))
        deployment = next(free, preferred[0])
        return deployment, deployment is preferred[0]

    def _note(self, head: bytes, in_flight: int) -> float:
        """Count a request. Return the average number of in-flight requests with this head."""
        if not self._seen:
            self._average_in_flight = in_flight
        self._average_in_flight += (in_flight - self._average_in_flight) / SMOOTHING
        self._heads[head] += 1
        self._seen += 1
        demand = self._average_in_flight * self._heads[head] / self._seen
        if self._seen >= HALF_LIFE:
            self._heads = Counter({head: n // 2 for head, n in self._heads.items() if n > 1})
            self._seen //= 2
        return demand


def _capacity(deployment: RankedDeployment, in_flight: float, weights: float) -> float:
    return max(MIN_CAPACITY, MAX_SHARE * in_flight * deployment.weight / weights)


def _ranked_by_head(head: bytes, deployments: Sequence[RankedDeployment]) -> list[RankedDeployment]:
    order = _order(head, tuple((each.name, each.weight) for each in deployments))
    return [deployments[at] for at in order]


@lru_cache(maxsize=RANKINGS)
def _order(head: bytes, deployments: tuple[tuple[str, float], ...]) -> tuple[int, ...]:
    """Return the indices of the deployments in the ranking of a head, in 0.2 ms for 200."""
    ranked = [RankedDeployment(*each, at) for at, each in enumerate(deployments)]
    return tuple(each.requests for each in _ranked(head, ranked))


def _ranked(key: bytes, deployments: Iterable[RankedDeployment]) -> list[RankedDeployment]:
    return sorted(deployments, key=lambda each: _score(key, each), reverse=True)


def _score(key: bytes, deployment: RankedDeployment) -> float:
    """Compute the score of a deployment. Schindelhauer and Schomaker, Weighted distributed hash
    tables (2005): the probability that a deployment has the highest score is proportional to its
    weight."""
    digest = hashlib.blake2b(deployment.name.encode(), digest_size=8, key=key).digest()
    # 52 bits, so that the float is greater than 0 and less than 1
    uniform = ((int.from_bytes(digest) >> 12) + 0.5) / 2**52
    return -deployment.weight / math.log(uniform)


class PrefixAffinity:
    """Chooses deployments by prefixes. `shared`: whether all owners share the backends' caches."""

    def __init__(self, deployments: Deployments, *, shared: bool = False) -> None:
        self._deployments = deployments
        self._shared = shared
        self._rendezvous: dict[str, Rendezvous] = {}
        """By the model's name for clients."""

    def choose(
        self,
        model: str,
        weights: Mapping[Placement, float],
        request: Mapping[str, Any],
        owner: str = "",
    ) -> Placement | None:
        """Return the placement for the prompt, or None if any placement is equally good. `weights`:
        share of the requests that each placement should get. Those of weight 0 get none. `owner`:
        the key or team that sent the request."""
        candidates: dict[RankedDeployment, Placement] = {}
        for placement, weight in weights.items():
            if weight > 0:
                deployment = self._deployments.at(placement)
                name = f"{placement.model}@{deployment.url}"
                candidates[RankedDeployment(name, weight, deployment.load.total)] = placement
        if len(candidates) < 2:
            return None
        hashes = hash_request(request, owner=owner, shared=self._shared)
        if hashes is None:
            return None
        rendezvous = self._rendezvous.setdefault(model, Rendezvous())
        selected, preferred = rendezvous.choose(hashes, [*candidates])
        metrics.AFFINITY.labels(sent="preferred" if preferred else "other").inc()
        return candidates[selected]

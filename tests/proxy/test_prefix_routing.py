"""Hashes of prompt prefixes, and the deployments that rendezvous hashing selects by them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import rotating
from toolgate_proxy.routing.prefix_affinity import (
    MAX_SHARE,
    MIN_BYTES,
    MIN_CAPACITY,
    PrefixHashes,
    RankedDeployment,
    Rendezvous,
    hash_prefixes,
    hash_request,
)

LONG = "You are a careful assistant. " * 60
SYSTEM = {"role": "system", "content": LONG}
TOOLS = [{"type": "function", "function": {"name": "f", "description": LONG}}]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def hashes(**request):
    result = hash_prefixes(request)
    assert result is not None
    return result


@pytest.mark.parametrize(
    "first",
    [[SYSTEM, user("Hello.")], [user(LONG)], [user("Hello."), assistant(LONG)], [user(LONG + "?")]],
)
def test_later_turns_have_the_same_hashes_as_the_first(first):
    later = [*first, assistant("Hello."), user("And now?"), {"role": "tool", "content": "{}"}]
    assert hashes(messages=later) == hashes(messages=first)
    assert hashes(messages=later, tools=TOOLS) == hashes(messages=first, tools=TOOLS)


def test_hashes_do_not_change_as_a_long_conversation_grows():
    turns = [user("Hello."), *(assistant(f"{at} " * 50) for at in range(40))]
    result = [hash_prefixes({"messages": turns[:end]}) for end in range(1, len(turns))]
    assert result[0] is None
    assert len({each for each in result if each is not None}) == 1


@pytest.mark.parametrize(
    ("head", "field", "turns"),
    [
        ({}, "messages", lambda text: [SYSTEM, user(text)]),
        ({}, "messages", lambda text: [{**SYSTEM, "role": "developer"}, user(text)]),
        ({"tools": TOOLS}, "messages", lambda text: [user(text)]),
        ({"system": LONG}, "messages", lambda text: [user(text)]),
        ({"instructions": LONG}, "input", str),
        ({"tools": TOOLS}, "input", lambda text: [user(text)]),
        ({}, "messages", lambda text: [user(LONG + text)]),  # with the same beginning
    ],
)
def test_conversations_with_the_same_system_prompt_share_the_head_hash(head, field, turns):
    one, other = (hashes(**head, **{field: turns(text)}) for text in ("A?", "B?"))
    assert one.head == other.head
    assert one.conversation != other.conversation


@pytest.mark.parametrize(
    "other",
    [
        {"tools": TOOLS},
        {"cache_salt": "mine"},
        {"messages": [{"role": "system", "content": "!" + LONG}, user("A?")]},
    ],
)
def test_different_tools_salts_or_system_prompts_have_different_head_hashes(other):
    request = {"messages": [SYSTEM, user("A?")]}
    assert hashes(**request).head != hashes(**request | other).head


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"messages": []},
        {"messages": [user("A?")]},
        {"messages": 7},
        {"messages": [None, 7, "A?"]},
        {"input": "A?"},
        {"messages": [user("x" * (MIN_BYTES // 2))]},
    ],
)
def test_short_prompts_have_no_hashes(request_):
    assert hash_prefixes(request_) is None


@pytest.mark.parametrize("odd", ["\ud800", 2**70, {1: 2}, b"x", [None]])
def test_unusual_values_are_hashed_without_error(odd):
    assert hash_prefixes({"messages": [SYSTEM, user(odd)], "tools": odd})


def test_marks_of_the_messages_api_do_not_change_the_hashes():
    """Clients move `cache_control` to the last message, and Claude Code numbers its requests."""
    mark = {"cache_control": {"type": "ephemeral"}}

    def turn(at, text="Hello.", system=lambda billing: billing, **marked):
        given = system(f"x-anthropic-billing-header: cch={at};")
        first = user([{"type": "text", "text": text, **marked}])
        return {"system": given, "messages": [first], "tools": [{**TOOLS[0], **marked}]}

    def block(text, **marked):
        return {"type": "text", "text": text, **marked}

    for system in (
        lambda billing: [block(billing), block(LONG, **mark)],
        lambda billing: [block(f"{billing}\n{LONG}")],
        lambda billing: f"{LONG}\n{billing}\n{LONG}",
    ):
        assert hashes(**turn(1, system=system, **mark)) == hashes(**turn(2, system=system))
        assert hashes(**turn(1, "Bye.", system)) != hashes(**turn(1, system=system))


def test_deferred_tools_do_not_change_the_hashes():
    messages = [SYSTEM, user("Hello.")]
    larger = [*TOOLS, {**TOOLS[0], "name": "found", "defer_loading": True}]
    assert hashes(messages=messages, tools=larger) == hashes(messages=messages, tools=TOOLS)
    shop, grown = (
        [{"type": "namespace", "name": "shop", "tools": tools}] for tools in (TOOLS, larger)
    )
    assert hashes(messages=messages, tools=grown) == hashes(messages=messages, tools=shop)


def with_key(key, owner="team a", **request):
    return hash_request({"prompt_cache_key": key, **request}, owner=owner)


@pytest.mark.parametrize("key", [None, "", 7, ["k"]])
def test_without_a_key_the_prefix_decides(key):
    """A key that is no string is an error of the parser."""
    long, short = {"messages": [SYSTEM, user("A?")]}, {"messages": [user("A?")]}
    assert with_key(key, **long) == hash_request(long, owner="team a")
    assert with_key(key, **short) is None


def test_a_key_takes_the_place_of_the_head():
    long = {"messages": [SYSTEM, user("A?")]}
    one, other = with_key("k", **long), with_key("k", messages=[user(LONG + "?")])
    assert one.head == other.head != hashes(**long).head
    assert one.conversation == hash_request(long, owner="team a").conversation
    assert other.conversation != one.conversation
    short = with_key("k", messages=[user("A?")])
    assert with_key("k", input="B?") == short
    assert short.head == short.conversation
    assert with_key("\ud800", input="A?") != with_key("\0" * 2000, input="A?")


def test_owners_have_hashes_of_their_own_unless_they_share_the_caches():
    long, owners = {"messages": [SYSTEM, user("A?")]}, ("", "team a", "team b", "key a")
    own = {hash_request(long, owner=owner) for owner in owners}
    assert len(own) == len(owners)
    shared = {hash_request(long, owner=owner, shared=True) for owner in owners}
    assert shared == {hash_prefixes(long)}
    keyed = {hash_request(long | {"prompt_cache_key": "k"}, owner=o, shared=True) for o in owners}
    assert len(keyed) == len(owners), "the keys of clients are never shared"
    short = {"messages": [user("A?")]}
    assert len({with_key(k, owner, **short) for k in "kl" for owner in owners}) == 2 * len(owners)


digests = st.binary(min_size=16, max_size=16)
prefixes = st.builds(PrefixHashes, digests, digests)
weights = st.floats(min_value=0.01, max_value=100)
deployments = st.lists(
    st.builds(RankedDeployment, st.text(max_size=4), weights, st.integers(0, 300)),
    min_size=1,
    max_size=8,
    unique_by=lambda deployment: deployment.name,
)


def prefix(head, conversation=0):
    name = f"head {head}"
    return PrefixHashes(name.encode(), f"{name}, conversation {conversation}".encode())


def idle(*weights):
    return [
        RankedDeployment(f"tiny@http://backend-{at}", weight, 0)
        for at, weight in enumerate(weights)
    ]


def places(count, deployments):
    """The names of the deployments for the prompts of so many heads."""
    return [Rendezvous().choose(prefix(head), deployments)[0].name for head in range(count)]


class Fleet:
    """Deployments with in-flight requests. Each gateway selects independently."""

    def __init__(self, backends, gateways=1, at_once=8, *, reported=False):
        """`at_once`: in-flight requests of each gateway. `reported`: they know each other's."""
        self.reported, self.at_once = reported, at_once
        self.gateways = [Rendezvous() for _ in range(gateways)]
        self.names = [deployment.name for deployment in idle(*[1] * backends)]
        self.running = []

    def send(self, prefix, gateway=0):
        mine = [place for by, place in self.running if by == gateway]
        known = [place for _, place in self.running] if self.reported else mine
        deployments = [RankedDeployment(each, 1, known.count(each)) for each in self.names]
        sent = self.gateways[gateway].choose(prefix, deployments)[0].name
        self.running.append((gateway, sent))
        if len(mine) >= self.at_once:
            self.running.remove((gateway, mine[0]))
        return sent


@given(prefixes, deployments, st.randoms(use_true_random=False))
def test_selected_deployments_have_capacity_whatever_their_order(prefix, deployments, random):
    selected = Rendezvous().choose(prefix, deployments)
    chosen, _ = selected
    in_flight = sum(each.requests for each in deployments) + 1
    share = chosen.weight / sum(each.weight for each in deployments)
    assert chosen in deployments
    assert chosen.requests < max(MIN_CAPACITY, MAX_SHARE * in_flight * share)
    random.shuffle(deployments)
    assert Rendezvous().choose(prefix, deployments) == selected


def test_a_head_uses_one_deployment_while_it_has_capacity():
    fleet = Fleet(4, at_once=int(MIN_CAPACITY) - 1)
    assert len({fleet.send(prefix(1, conversation)) for conversation in range(500)}) == 1


def test_heads_are_distributed_evenly_or_by_weight():
    fleet = Fleet(4)
    assert min(Counter(fleet.send(prefix(head)) for head in range(2000)).values()) > 400
    deployments = idle(3, 1)
    assert 0.7 < places(2000, deployments).count(deployments[0].name) / 2000 < 0.8


@rotating("backends,gateways", [(2, 1), (4, 4), (8, 1), (2, 4), (4, 1), (8, 4)], one_in=2)
def test_conversations_of_a_busy_head_stay_at_their_deployment(backends, gateways):
    """Turns arrive at different gateways, and one deployment has no capacity for all."""
    fleet = Fleet(backends, gateways, at_once=64)
    for warm in range(500 * gateways):
        fleet.send(prefix(1, warm), warm % gateways)
    stayed, turns, conversations = 0, 6, range(10_000, 10_300)
    last, used = {}, Counter()
    for turn in range(turns):
        for conversation in conversations:
            sent = fleet.send(prefix(1, conversation), (conversation + turn) % gateways)
            stayed += last.get(conversation) == sent
            last[conversation] = sent
            used[sent] += 1
    assert stayed / (len(conversations) * (turns - 1)) > 0.8
    assert max(used.values()) < 1.5 * used.total() / backends


def test_many_gateways_together_respect_the_capacity_of_a_deployment():
    """Each of them has so few requests that it would send all to the same deployment."""
    fleet = Fleet(8, gateways=100, at_once=2, reported=True)
    for at in range(4_000):
        fleet.send(prefix(1, at), at % 100)
    used = Counter(place for _, place in fleet.running)
    assert len(used) > 5
    assert max(used.values()) <= MAX_SHARE * (len(fleet.running) + 1) / 8 + 1


def test_a_head_uses_no_more_deployments_than_necessary():
    """One of ten equally frequent heads uses at most two of eight deployments, nearly always."""
    fleet, sent = Fleet(8, at_once=64), Counter()
    for at in range(5000):
        place = fleet.send(prefix(at % 10, at))
        if at >= 1000 and at % 10 == 0:
            sent[place] += 1
    assert sum(count for _, count in sent.most_common(2)) > 0.8 * sent.total()


def test_removing_a_deployment_moves_only_its_prompts():
    before, after = places(500, idle(1, 1, 1, 1)), places(500, idle(1, 1, 1, 1)[1:])
    lost = idle(1)[0].name
    assert all(a == b for a, b in zip(before, after, strict=True) if a != lost)

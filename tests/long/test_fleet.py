"""The simulated fleet: no invariant is violated, equal seeds are equal, and each check can fail."""

import pytest

pytest.importorskip("lupa", reason="runs the Lua scripts of the gateways")

from tests.long.fleet.gateway import Deadlock, virtual_time
from tests.long.fleet.redis_server import RedisServer
from tests.long.fleet.scenario import Profile, simulate
from tests.support.effort import rotating
from toolgate_proxy.grammars.verdicts import RedisCache
from toolgate_proxy.keys import sync
from toolgate_proxy.limits.limiter import Leases, Limiter

SHORT = Profile(days=0.5)
SEEDS = range(1, 9)


def found(profile, seeds=SEEDS):
    """The first outcome with a violation, or the last one."""
    for seed in seeds:
        outcome = simulate(seed, profile)
        if outcome.violations:
            break
    return outcome


@pytest.mark.exhaustive
@rotating("seed", SEEDS, one_in=8)
def test_limits_keys_and_grammars_hold_with_faults(seed):
    outcome = simulate(seed, SHORT)
    assert not outcome.violations, f"python -m tests.long fleet --seed {seed} --days {SHORT.days}"
    counts = outcome.counts
    assert sum(count for name, count in counts.items() if name.startswith("faults: ")) >= 2
    assert counts["requests: served"] > 100
    checked = ("requests per minute", "requests at once", "keys", "verdicts")
    assert {f"checks: {name}" for name in checked} <= counts.keys()


@pytest.mark.exhaustive
def test_a_seed_can_be_replayed():
    first, again, other = (simulate(seed, Profile(days=0.05)) for seed in (3, 3, 4))
    assert first == again
    assert first.labels != other.labels


CALM = Profile(days=0.4, faults_per_burst=0)


@pytest.mark.slow
def test_a_limiter_that_fails_open_is_found(monkeypatch):
    init = Limiter.__init__

    def open_instead(self, *arguments):
        init(self, *arguments)
        self._fails_open = True

    monkeypatch.setattr(Limiter, "__init__", open_instead)
    outcome = found(Profile(days=0.5, faults_per_burst=6))
    assert any("without being counted" in each for each in outcome.violations)


@pytest.mark.slow
def test_leases_that_are_not_released_are_found(monkeypatch):
    async def kept(self, lease):
        return

    monkeypatch.setattr(Leases, "settle", kept)
    outcome = found(Profile(days=0.05, faults_per_burst=0))  # each lease is renewed for ever
    assert any("none of its requests runs" in each for each in outcome.violations)


@pytest.mark.slow
def test_a_script_that_admits_too_much_is_found(monkeypatch):
    execute = RedisServer.execute

    def lax(self, command):
        if command[0] == "EVAL":
            text = command[1].replace("count + amount > limit", "count + amount > limit + 3")
            command = (command[0], text, *command[2:])
        return execute(self, command)

    monkeypatch.setattr(RedisServer, "execute", lax)
    outcome = found(CALM)
    assert any("in a minute" in each for each in outcome.violations)
    assert any("at once" in each for each in outcome.violations)


@pytest.mark.slow
def test_verdicts_that_are_not_shared_are_found(monkeypatch):
    monkeypatch.setattr(RedisCache, "put", lambda *_, **__: None)
    outcome = found(CALM)
    assert any("was compiled at" in each for each in outcome.violations)


@pytest.mark.slow
def test_revocations_that_are_not_read_are_found(monkeypatch):
    def read(*given, opened=sync.opened):
        kept = {"revoked": None}
        return [each._replace(key=each.key.model_copy(update=kept)) for each in opened(*given)]

    monkeypatch.setattr(sync, "opened", read)
    outcome = found(Profile(days=0.5, faults_per_burst=0, poll=5.0))
    assert any("after it was revoked" in each for each in outcome.violations)


def test_a_fleet_that_waits_for_itself_is_an_error():
    with virtual_time() as loop, pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())

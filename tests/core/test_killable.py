"""Killable workers: what they do to jobs over a limit, and when something else kills them. Slots:
no owner has all, owners take turns, and tasks that leave give back what they had."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support import killable_work
from tests.support.killable_work import Job, Result
from tests.support.waiting import until
from toolgate_core import host_probe
from toolgate_core.errors import ChecksBusy, ChecksFailed
from toolgate_core.killable import FairSlots, JobLimits, LimitExceeded, WorkerPool

pytestmark = [
    pytest.mark.timed,
    pytest.mark.exhaustive,
    pytest.mark.asyncio(loop_scope="module"),
]

AMPLE = JobLimits(60, 120)


def made(workers=1, target=f"{killable_work.__name__}:work", **options):
    return WorkerPool(
        target,
        Result,
        AMPLE,
        task="work",
        workers=workers,
        setup=lambda: b"given",
        environment={"EXTRA": " too"},
        **options,  # type: ignore[arg-type]
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool():
    """One for most tests, whatever they do to its processes."""
    pool = made()
    yield pool
    pool.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two():
    """Two workers, one for each owner of jobs."""
    pool = made(workers=2)
    yield pool
    pool.close()


async def done(pool, *steps, path=None, limits=AMPLE):
    return (await pool.run(Job(steps=steps, path=str(path or "")), limits=limits)).text


async def ended(pid):
    """Wait for the end of a process that is not our child."""
    status = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while status.read_text().rpartition(") ")[2][0] not in "ZX":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_worker_runs_one_job_after_another_and_the_last_result_counts(pool):
    assert await done(pool, "a", "b") == "b"
    assert await done(pool, "setup") == "given too"
    assert await done(pool, "pid") == await done(pool, "pid")


@pytest.mark.parametrize(
    ("step", "limits", "limit"),
    [
        ("spin", JobLimits(0.2, 120), "cpu"),
        ("spin", JobLimits(60, 0.2), "wall"),
        ("sleep", JobLimits(60, 0.2), "wall"),
        ("allocate", JobLimits(60, 120, 2**26), "memory"),
        ("large", AMPLE, "memory"),
        ("SIGSEGV", AMPLE, "crash"),  # of both attempts
        ("SIGABRT", AMPLE, "memory"),
    ],
)
async def test_a_job_over_a_limit_ends_with_it_and_others_go_on(two, step, limits, limit):
    over = asyncio.create_task(done(two, step, limits=limits))
    assert await done(two, "a") == "a"
    with pytest.raises(LimitExceeded) as exceeded:
        await over
    assert exceeded.value.limit == limit
    assert await done(two, "b") == "b"


async def test_a_job_over_a_limit_after_its_first_result_has_this_result(pool):
    for step in ("spin", "allocate", "SIGSEGV"):
        assert await done(pool, "a", step, limits=JobLimits(0.2, 120, 2**26)) == "a"


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV"])
async def test_the_job_of_a_killed_worker_is_repeated(pool, tmp_path, name):
    assert await done(pool, f"once {name}", "a", path=tmp_path / "attempts") == "a"
    first = await done(pool, "a", f"once {name}", "b", path=tmp_path / "after the first result")
    assert first == ("a" if name == "SIGSEGV" else "b")


@pytest.mark.parametrize("step", ["SIGKILL", "fail"])
async def test_a_job_whose_workers_end_twice_has_no_result(pool, step):
    with pytest.raises(ChecksFailed, match=r"killed by signal 9|ended with status 1") as failed:
        await done(pool, step)
    assert (failed.value.status, failed.value.retry_after) == (503, 1)
    assert await done(pool, "a") == "a"


@pytest.mark.parametrize("of_template", [False, True])
async def test_what_is_killed_between_jobs_is_replaced(pool, of_template):
    worker = int(await done(pool, "pid"))
    assert pool._template is not None
    os.kill(pool._template.pid if of_template else worker, signal.SIGKILL)
    await ended(worker)  # workers end with their template
    assert await done(pool, "pid") != str(worker)


async def test_the_job_of_a_killed_template_is_repeated(pool):
    assert await done(pool, "a") == "a"
    busy = asyncio.create_task(done(pool, "busy", "a"))
    await asyncio.sleep(0)
    assert pool._template is not None
    pool._template.kill()
    assert await busy == "a"


async def test_the_worker_of_a_cancelled_job_is_killed(pool):
    worker = int(await done(pool, "pid"))
    running = asyncio.create_task(done(pool, "spin"))
    await asyncio.sleep(0.2)
    running.cancel()
    await asyncio.wait([running])
    await ended(worker)
    assert await done(pool, "a") == "a"


async def test_a_worker_is_replaced_after_an_expensive_job():
    pool = made(renew_seconds=0.2)
    first = await done(pool, "pid")
    assert await done(pool, "busy", "pid") == first
    await ended(int(first))
    assert await done(pool, "pid") != first
    pool.close()


@pytest.mark.parametrize("target", ["no_such_module:work", f"{killable_work.__name__}:none"])
async def test_workers_that_do_not_start_give_no_result(target):
    pool = made(target=target)
    for attempt in (pool.warm_up(), done(pool, "a")):
        with pytest.raises(ChecksFailed, match="did not start"):
            await attempt


async def test_jobs_that_get_no_worker_in_time_are_refused():
    """One owner has all workers but one, and no more than one of two here."""
    pool = made(workers=2, wait_seconds=0.1)
    await pool.warm_up()
    slow = asyncio.create_task(done(pool, "sleep"))
    await asyncio.sleep(0)
    with pytest.raises(ChecksBusy):
        await done(pool, "a")
    assert (await pool.run(Job(steps=("a",)), "other")).text == "a"
    slow.cancel()
    await asyncio.wait([slow])
    pool.close()


async def test_workers_have_no_variables_of_the_host_but_those_of_its_interpreter(monkeypatch):
    for name in ("TOOLGATE_MASTER_KEY", "HF_TOKEN", "OPENAI_API_KEY", "REDIS_PATH", "DATABASE_URL"):
        monkeypatch.setenv(name, "a secret")
    monkeypatch.setenv("PYTHONPATH", "/extra")
    pool = made()
    worker = await done(pool, "pid")
    entries = Path(f"/proc/{worker}/environ").read_text().strip("\0").split("\0")
    pool.close()
    assert "a secret" not in str(entries)
    assert "PYTHONPATH=/extra" in entries
    names = {entry.partition("=")[0] for entry in entries} - {"EXTRA"}
    assert names <= {name for name in os.environ if host_probe.INHERITED.fullmatch(name)}


async def test_workers_do_not_pile_up():
    pool = made(workers=3, renew_seconds=0)
    await asyncio.gather(*(pool.run(Job(steps=("busy", "a")), str(at)) for at in range(6)))
    assert pool._template is not None
    pid = pool._template.pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    await until(lambda: len(children.read_text().split()) <= 3)
    pool.close()


async def test_nothing_is_left_when_the_host_is_killed():
    """Not even a worker that would run for long."""
    code = (
        "import asyncio\nfrom tests.core.test_killable import done, made\n"
        "async def main():\n    pool = made(2)\n"
        "    print(await done(pool, 'pid'), pool._template.pid, flush=True)\n"
        "    await done(pool, 'spin')\nasyncio.run(main())"
    )
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert host.stdout is not None
    pids = [int(pid) for pid in host.stdout.readline().split()]
    await asyncio.sleep(0.3)
    host.kill()
    async with asyncio.timeout(30):
        await asyncio.gather(*map(ended, pids))
    assert len(pids) == 2
    host.wait()
    host.stdout.close()


async def test_workers_share_no_socket_with_each_other_or_with_the_host(pool):
    worker = await done(pool, "pid")
    links = [str(fd.readlink()) for fd in Path(f"/proc/{worker}/fd").iterdir()]
    assert sum(link.startswith("socket:") for link in links) == 1
    assert os.getsid(int(worker)) == os.getsid(0)
    assert os.getpgid(int(worker)) != os.getpgid(0)  # so that Ctrl-C does not end it


async def test_a_job_that_is_cancelled_while_the_template_starts_leaves_nothing():
    others, pool = templates(), made()
    for _ in range(3):
        starting = asyncio.create_task(done(pool, "a"))
        await asyncio.sleep(0.05)
        starting.cancel()
        await asyncio.wait([starting])
    assert await done(pool, "a") == "a"
    assert pool._template is not None
    await until(lambda: templates() - others == {pool._template.pid}, 60)
    pool.close()


def templates():
    """The templates of these tests in this process, whichever thread has started them."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            for child in (task / "children").read_text().split():
                if killable_work.__name__.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.add(int(child))
    return found


class Jobs:
    """Jobs that run until they are ended, and the order in which they began."""

    def __init__(self, count):
        self.slots = FairSlots(count)
        self.begun = []
        self._ends = {}
        self._tasks = {}

    async def add(self, *names):
        """The first letter of a name is its owner."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._run(name))
        await asyncio.sleep(0.01)

    async def _run(self, name):
        async with self.slots.slot(name[0], 60):
            self.begun.append(name)
            await self._ends[name].wait()

    async def end(self, name):
        self._ends[name].set()
        await self._tasks[name]
        await asyncio.sleep(0.01)

    async def cancel(self, *names):
        for name in names:
            self._tasks[name].cancel()
        await asyncio.sleep(0.01)


async def test_a_slot_is_left_for_other_owners():
    jobs = Jobs(2)
    await jobs.add("a1", "a2", "a3")
    assert jobs.begun == ["a1"]
    await jobs.add("b1")
    assert jobs.begun == ["a1", "b1"]
    await jobs.end("b1")
    assert jobs.begun == ["a1", "b1"]
    await jobs.end("a1")
    assert jobs.begun == ["a1", "b1", "a2"]


async def test_owners_take_turns():
    jobs = Jobs(1)
    await jobs.add("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    for name in ("a1", "a2", "b1", "c1", "a3", "b2"):
        assert jobs.begun[-1] == name
        await jobs.end(name)
    assert jobs.begun[-1] == "a4"


async def test_cancelled_jobs_give_back_their_slots_and_places():
    jobs = Jobs(2)
    await jobs.add("a1", "a2", "a3", "b1", "b2")
    await jobs.cancel("a2", "a1", "b1")
    assert jobs.begun == ["a1", "b1", "a3", "b2"]
    await jobs.end("a3")
    await jobs.end("b2")
    assert (jobs.slots._free, dict(jobs.slots._taken), dict(jobs.slots._waiting)) == (2, {}, {})


async def test_waiting_is_limited():
    slots = FairSlots(1)
    async with slots.slot("a", 1):
        with pytest.raises(TimeoutError):
            async with slots.slot("b", 0.02):
                raise AssertionError
    async with slots.slot("b", 1):
        pass
    assert not slots._waiting

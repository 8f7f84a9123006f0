"""Gateways that start: anew, by LiteLLM's command, and as the guides in docs/guide say."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

import httpx
import openai
import psutil
import pytest
import yaml
from prometheus_client.mmap_dict import MmapedDict
from pydantic import SecretStr

from tests.proxy.process.kit import CHAT, HI, Configured, value
from tests.support.alert_rules import missing_series
from tests.support.effort import by_turns
from tests.support.grammars.prewarm_tools import entry
from tests.support.servers.fake_backend import INFO, KEY, FakeBackend, running
from tests.support.servers.gateway_process import (
    KEY_SECRET,
    MASTER_KEY,
    environment,
    serving,
    start,
    wait_until_alive,
)
from tests.support.servers.http_client import bearer, http_client, openai_client
from tests.support.servers.redis_server import redis_server
from tests.support.servers.script import Script
from tests.support.servers.unused_packages import LIST, Missing, modules, packages
from tests.support.servers.virtual_keys import until_status
from tests.support.waiting import until
from toolgate_core.tools import parse_tools
from toolgate_proxy.grammars.service import grammar_key
from toolgate_proxy.keys.key import Hasher
from toolgate_proxy.keys.redis_store import RedisStore
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.server.launcher import Route, make_config

DOCS = Path(__file__).parents[3] / "docs" / "guide"
NOWHERE = "http://127.0.0.1:9"
CONFIG = Path(__file__).parents[3] / "litellm_config.yaml"


def _require_missing():
    """Ends the process of a gateway that could import one of the packages."""
    for name in {name for package in packages() for name in modules(package)}:
        try:
            import_module(name)
        except ModuleNotFoundError:
            continue
        sys.exit(f"{name} can be imported")


async def test_a_new_gateway_knows_verdicts_has_all_series_and_needs_no_unused_packages(
    http, backend, redis_of_gateway, tmp_path
):
    """The session's gateway has recorded a verdict; one that starts anew knows it. Both are without
    the packages in requirements/proxy-unused.txt."""
    ask = HI | {"tools": [entry("habit")]}
    asked = await http.post(CHAT, json=ask)
    assert asked.headers["x-toolgate-grammar"] == "new; n=1"
    (habit,) = parse_tools([entry("habit")])
    record = f"toolgate:verdict:*:{grammar_key(habit, INFO)}"
    await until(lambda: redis_of_gateway.client.keys(record), 60)
    arguments, url = ("--model", "tiny", "--model", "other=tiny"), redis_of_gateway.url
    with running(FakeBackend()) as fresh:
        log = tmp_path / "log"
        with serving(arguments, fresh.url, log, url, before=_require_missing) as other:
            async with http_client(other.url, MASTER_KEY, timeout=60) as client:
                metrics = (await client.get("/toolgate/metrics")).text
                fresh.scripts["hi"] = Script(("Hello",))
                asked = await client.post(CHAT, json=ask)
    assert asked.headers["x-toolgate-grammar"] == "known; n=1"
    assert not fresh.compiles
    assert missing_series(metrics, backend=False) == []
    for model in ("tiny", "other"):
        assert f'toolgate_failed_requests_total{{model="{model}"}} 0.0' in metrics


def test_unused_packages_are_those_that_the_extra_installs_and_can_not_be_found():
    locked = (LIST.parent / "locked" / "proxy.txt").read_text()
    assert packages()
    assert not [name for name in packages() if f"\n{name}==" not in locked]
    missing = Missing({"polars"})
    with pytest.raises(ModuleNotFoundError):
        missing.find_spec("polars.io")
    assert missing.find_spec("polars_other") is None


@contextmanager
def own_process(command, backend_url, folder, **more):
    """Run a command that takes a port until the context is left; gives its URL. A process of its
    own, because forks of another one end without Python's shutdown. The log is in `folder`."""
    port, log = free_port(), folder / "log"
    url = f"http://127.0.0.1:{port}"
    variables = os.environ | environment(backend_url) | more
    command = [*command, "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=output)
    try:
        wait_until_alive(url, log, lambda: process.poll() is None)
        yield url
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(60)
        psutil.wait_procs(children, 20)


@by_turns(0, one_in=3)
async def test_litellm_command_serves_our_provider(spare_backend, tmp_path):
    """`litellm --config litellm_config.yaml`, with our package installed beside it."""
    spare_backend.scripts["hi"] = Script(("<think>\nhm\n</think>\n\nHello",))
    program = str(Path(sys.executable).with_name("litellm"))
    command = [program, "--config", str(CONFIG), "--host", "127.0.0.1"]
    with own_process(command, spare_backend.url, tmp_path) as url:
        async with openai_client(url, MASTER_KEY) as client:
            ask = {"model": "toolgate", "messages": [{"role": "user", "content": "hi"}], "n": 2}
            response = await client.chat.completions.create(**ask)
            assert [c.message.content for c in response.choices] == ["Hello", "Hello"]
            streamed = {"stream": True, "stream_options": {"include_usage": True}}
            stream = await client.chat.completions.create(**ask, **streamed)
            assert [chunk async for chunk in stream][-1].usage == response.usage
            for streams in (False, True):
                params = {"tool_choice": "required", "stream": streams}
                with pytest.raises(openai.BadRequestError) as refusal:
                    await client.chat.completions.create(**ask, **params)
                assert (refusal.value.code, refusal.value.param) == ("invalid_tools", "tools")
            with pytest.raises(openai.BadRequestError, match="support embeddings"):
                await client.embeddings.create(model="toolgate", input="hi")
        async with http_client(url) as stranger:
            assert (await stranger.post("/v1/chat/completions", json=ask)).status_code == 401


START_SECONDS = 180
"""Within which both workers of a gateway have started."""


def served_by(folder):
    """The number of processes that have answered chat completions."""
    held = (MmapedDict.read_all_values_from_file(str(each)) for each in folder.glob("counter_*.db"))
    return sum(
        any(value for name, value, *_ in each if '"toolgate_requests_total"' in name)
        for each in held
    )


def ask_at_once(url, number=8):
    """Send so many requests, each on a connection of its own, which any worker may accept."""

    def ask(_):
        answer = httpx.post(url + CHAT, json=HI, headers=bearer(MASTER_KEY), timeout=60)
        assert answer.status_code == 200, answer.text

    with ThreadPoolExecutor(number) as pool:
        return len([*pool.map(ask, range(number))])


@pytest.mark.slow
def test_one_scrape_has_the_requests_of_all_workers(tmp_path, spare_backend):
    (folder := tmp_path / "metrics").mkdir()
    command = [sys.executable, "-m", "toolgate_proxy", "proxy", "--model", "tiny", "--workers", "2"]
    token = "scrape-token-of-the-tests"
    more = {
        "PROMETHEUS_MULTIPROC_DIR": str(folder),
        "TOOLGATE_METRICS_TOKEN": token,
        "TOOLGATE_LOG_FORMAT": "json",
    }
    headers = bearer(token)
    with own_process(command, spare_backend.url, tmp_path, **more) as url:
        fresh = httpx.get(f"{url}/metrics", headers=headers, timeout=60).text
        assert missing_series(fresh, backend=False) == []
        count, began = 0, time.monotonic()
        # On a busy machine, the second worker starts long after the first one has responded.
        while served_by(folder) < 2:
            assert time.monotonic() - began < START_SECONDS, (tmp_path / "log").read_text()[-3000:]
            count += ask_at_once(url)
        text = httpx.get(f"{url}/metrics", headers=headers, timeout=60).text
    labels = {"model": "tiny", "surface": "chat_completions"}
    assert value(text, "toolgate_requests_total", **labels, key="master", status="200") == count
    assert value(text, "toolgate_request_seconds_count", **labels) == count
    check_json(tmp_path / "log", "Model tiny: own route.")


def check_json(log, message):
    """Every line of the log is JSON."""
    lines = [json.loads(each) for each in log.read_text().splitlines()]
    assert all({"time", "level"} <= each.keys() for each in lines)
    messages = [each.get("message", "") for each in lines]
    assert message in messages
    assert any(each.startswith("Finished server process") for each in messages)


BLOCK = re.compile(r"(<!-- elsewhere -->\n)?```sh\n(.*?)```", re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the document's commands need curl")
@by_turns(1, one_in=3)
def test_commands_of_the_gateway_guide_work(tmp_path):
    """In their order, in one shell. What the guide starts on other machines is there already: a
    Valkey, and scripted backends in the place of vLLM's. Its log is JSON."""
    with ExitStack() as stack:
        backends = [stack.enter_context(running(FakeBackend())) for _ in range(3)]
        redis = stack.enter_context(redis_server())
        for backend, model in zip(backends, ("small", "small", "large"), strict=True):
            backend.info = backend.info.model_copy(update={"model": model, "models": (model,)})
            backend.scripts["Say hello."] = Script(("Hello.",))
        script = "\n".join(
            each
            for elsewhere, each in BLOCK.findall((DOCS / "gateway.md").read_text())
            if not elsewhere
        )
        places = {
            "127.0.0.1:4000": f"127.0.0.1:{(port := free_port())}",
            "--port 4000": f"--port {port}",
            "redis://127.0.0.1:6379/0": redis.url,
            "http://127.0.0.1:8001": backends[0].url,
            "http://127.0.0.1:8002": backends[1].url,
            "http://127.0.0.1:8003": backends[2].url,
            "$(openssl rand -hex 24)\nexport TOOLGATE_REDIS": f"{KEY}\nexport TOOLGATE_REDIS",
        }
        for written, here in places.items():
            assert written in script
            script = script.replace(written, here)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        environment["TOOLGATE_LOG_FORMAT"] = "json"
        said = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "trap 'kill %1; wait %1 || true' EXIT\n" + script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    log = tmp_path / "gateway.log"
    assert said.returncode == 0, said.stdout + said.stderr + log.read_text()[-3000:]
    statuses = [line for line in said.stdout.splitlines() if re.fullmatch(r"\d{3}", line)]
    commented = re.findall(r"^ask \w+ +# (\d{3})", script, re.MULTILINE)
    assert statuses == commented == ["200", "403", "200", "429", "401"]
    assert "x-ratelimit-remaining-requests: 1" in said.stdout
    assert re.search(r"^retry-after: \d+", said.stdout, re.MULTILINE)
    assert '"counted":"fleet"' in said.stdout
    check_json(log, "Model small: own route.")


def test_a_gateway_without_a_guardrail_of_its_configuration_does_not_start(tmp_path):
    params = {"guardrail": "litellm_content_filtre", "mode": "pre_call", "default_on": True}
    config = make_config([Route("tiny", "tiny", NOWHERE)])
    config["guardrails"] = [{"guardrail_name": "words", "litellm_params": params}]
    (path := tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    log = tmp_path / "log"
    gateway = start(["--config", str(path)], NOWHERE, log)
    gateway.process.join(120)
    assert gateway.process.exitcode not in (None, 0)
    place = "guardrails[0].litellm_params.guardrail: LiteLLM has no guardrail"
    assert f"{place} 'litellm_content_filtre'. Did you mean" in log.read_text()


def block(page, language):
    [found] = re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return str(found)


def without(mark, diff):
    """The file on the other side of a diff."""
    kept = (line[1:] for line in diff.splitlines() if not line.startswith(mark))
    return yaml.safe_load("\n".join(kept))


@by_turns(2, one_in=3)
async def test_six_lines_make_a_toolgate_gateway_of_litellms_configuration(spare_backend, tmp_path):
    diff = block("litellm.md", "diff")
    before, after = without("+", diff), without("-", diff)
    assert [row["model_name"] for row in before["model_list"]] == ["qwen", "gpt-4o"]
    assert len(re.findall(r"^\+", diff, re.M)) == 6
    row = after["model_list"][0]
    row["litellm_params"] |= {"api_base": spare_backend.url, "model": "toolgate/tiny"}
    prices = {"input_cost_per_token": 0.25, "output_cost_per_token": 0.5}
    priced = {"model_name": "priced", "litellm_params": row["litellm_params"] | prices}
    after["model_list"].append(priced)
    shutil.copy(Path(__file__).with_name("recorder.py"), tmp_path)
    after["litellm_settings"]["callbacks"] = ["recorder.recorder"]
    config, log = tmp_path / "config.yaml", tmp_path / "log"
    config.write_text(yaml.safe_dump(after))
    made = partial(Configured, redis="", records=tmp_path / "records")
    more = {"OPENAI_API_KEY": "sk-none", "RECORDED": str(tmp_path / "records")}
    with serving(["--config", str(config)], spare_backend.url, log, **more) as gateway:
        async with http_client(gateway.url, MASTER_KEY, timeout=60) as http:
            for at, model in enumerate(("qwen", "priced")):
                response = await http.post(CHAT, json=HI | {"model": model})
                assert response.json()["choices"][0]["message"]["content"] == "Hello there"
                event = (await made(gateway).told("success", at + 1))[-1]
                assert (event["payload"]["response_cost"] > 0) == (model == "priced")
    assert "Model qwen: own route." in log.read_text()
    assert "Warning" not in log.read_text()


async def test_keys_move_to_another_secret_with_a_second_database(
    gateway, redis_of_gateway, tmp_path
):
    [entry] = yaml.safe_load(block("litellm.md", "yaml"))["keys"]
    (file := tmp_path / "keys.yaml").write_text(yaml.safe_dump({"keys": [entry]}))
    other = redis_of_gateway.url.removesuffix("/0") + "/1"
    sides = ((redis_of_gateway.url, KEY_SECRET), (other, "another secret of thirty-two bytes"))
    for redis, secret in sides:
        variables = {"TOOLGATE_REDIS_URL": redis, "TOOLGATE_KEY_SECRET": secret}
        command = [sys.executable, "-m", "toolgate_proxy", "keys", "import", str(file)]
        run = partial(subprocess.run, capture_output=True, text=True, check=False)
        done = await asyncio.to_thread(run, command, env=os.environ | variables)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("Imported: 1.")
        hasher = Hasher(SecretStr(secret))
        store = RedisStore(SecretStr(redis), hasher)
        found = await store.find(entry["alias"])
        await store.aclose()
        assert [each.hash for each in found.secrets] == [hasher.hash(entry["key"])]
    await until_status(gateway, entry["key"], 200)

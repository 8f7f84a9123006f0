"""Alert rules and dashboard use metrics that exist, and Prometheus accepts them."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
METRICS = ROOT / "docs" / "reference" / "metrics.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "toolgate.json"
NAME = re.compile(r"\btoolgate_[a-z_]+\b")
ROW = re.compile(r"^- `(toolgate_[a-z_]+)`(?: \(([^)]*)\))?:", re.M)

PROMISES = {
    "toolgate_enforcement_violations_total",
    "toolgate_given_up_calls_total",
    "toolgate_keys_redis_breaker_open",
    "toolgate_redis_breaker_open",
    "toolgate_redis_seconds_bucket",
    "toolgate_grammars_refused_total",
    "toolgate_inter_token_seconds_bucket",
    "toolgate_first_token_seconds_bucket",
    "toolgate_backend_up",
}


def series() -> dict[str, set[str]]:
    """The labels of all series in docs/reference/metrics.md, by name."""
    found = {}
    for name, labels in ROW.findall(METRICS.read_text()):
        names = set(re.findall(r"`(\w+)`", labels))
        if name.endswith(("_seconds", "_bytes")):  # histograms
            found |= {f"{name}_bucket": names | {"le"}, f"{name}_sum": names}
            found[f"{name}_count"] = names
        else:
            found[name] = names
    assert found
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (each["query"] for each in dashboard["templating"]["list"])


def test_every_metric_and_label_in_use_exists():
    known = series()
    used = set()
    for expression in expressions():
        names = set(NAME.findall(expression))
        used |= names
        assert names <= known.keys(), expression
        labels = set(re.findall(r"(\w+)\s*=~?\"", expression)) - {"job"}
        for group in re.findall(r"by \(([^)]*)\)", expression):
            labels |= {each.strip() for each in group.split(",")}
        allowed = {"instance"}.union(*(known[name] for name in names))
        assert not names or labels <= allowed, expression
    assert len(used) > 25


def test_every_metric_of_the_gateway_is_on_the_dashboard_or_in_a_rule():
    shown = {name for expression in expressions() for name in NAME.findall(expression)}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    names = {name for name, _ in ROW.findall(METRICS.read_text())}
    left_out = {
        "toolgate_backend_grammar_loads_total",
        "toolgate_backend_schema_refusals_total",
        "toolgate_kept_reasoning_total",
        "toolgate_resampled_tokens_total",
        "toolgate_responses_broken_total",
        "toolgate_responses_dropped_total",
    }
    assert names - shown == left_out


OF_REQUESTS = {"backend", "engine", "key", "model", "server", "surface"}
"""Labels whose values are those of the configuration and of requests."""


def test_counters_whose_labels_have_known_values_begin_at_zero():
    """In a new process, because other tests count."""
    modules = [
        ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for folder in (ROOT / "proxy" / "toolgate_proxy", ROOT / "backend" / "toolgate_backend")
        for path in folder.rglob("metrics.py")
    ]
    modules.append("toolgate_proxy.limits.limiter")  # has the kinds of limits
    program = (
        f"import {', '.join(modules)}, prometheus_client as p; print(p.generate_latest().decode())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    rows = ROW.findall(METRICS.read_text())
    names = {
        name
        for name, labels in rows
        if name.endswith("_total") and not OF_REQUESTS & set(re.findall(r"`(\w+)`", labels))
    }
    assert len(names) > 15
    exposed = set(re.findall(r"^(toolgate_\w+)", run.stdout, re.M))
    assert names <= exposed, names - exposed


def test_each_promise_has_an_alert():
    alerted = {name for rule in rules() for name in NAME.findall(rule["expr"])}
    assert alerted >= PROMISES
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert {"summary", "description"} <= rule["annotations"].keys()


def test_the_panels_do_not_overlap_and_have_queries():
    taken: set[tuple[int, int]] = set()
    ids = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        assert panel["type"] == "row" or panel["targets"]
        taken |= cells
        ids.add(panel["id"])
    assert len(ids) == len(json.loads(DASHBOARD.read_text())["panels"])


def test_the_dashboard_is_current():
    command = [sys.executable, ROOT / "scripts" / "dashboard.py", "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "run `make docs`"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (package prometheus)")
@pytest.mark.parametrize(
    "arguments", [("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")]
)
def test_prometheus_accepts_the_rules_and_they_fire(arguments):
    run = subprocess.run(
        ["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (package prometheus)")
def test_prometheus_accepts_the_queries_of_the_dashboard(tmp_path):
    queries = [
        expression.replace("$__rate_interval", "5m").replace("$__range", "1h")
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for expression in (target["expr"] for target in panel.get("targets", ()))
    ]
    records = [{"record": f"panel:{at}", "expr": each} for at, each in enumerate(queries)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    run = subprocess.run(
        ["promtool", "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr

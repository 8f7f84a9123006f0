"""Write deploy/grafana/toolgate.json, the dashboard of gateways and backends (`make docs`).

    python scripts/dashboard.py [--check]

With `--check` nothing is written. The exit status is 1 if the file is out of date.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from generated import ROOT, write_or_check

TARGET = ROOT / "deploy" / "grafana" / "toolgate.json"
SOURCE = {"type": "prometheus", "uid": "${source}"}
MODEL = 'model=~"$model"'
WIDTH, HEIGHT = 8, 7
COLUMNS = 24 // WIDTH


@dataclass(frozen=True)
class Panel:
    title: str
    queries: dict[str, str]
    """Legend → expression."""
    unit: str = "short"
    description: str = ""
    kind: str = "timeseries"
    red_above: float | None = None


def quantiles(metric: str, by: str = "", where: str = MODEL) -> dict[str, str]:
    labels = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return {
        f"p{share}{legend}": f"histogram_quantile(0.{share}, sum by ({labels}) "
        f"(rate({metric}_bucket{{{where}}}[$__rate_interval])))"
        for share in (50, 95, 99)
    }


def rates(metric: str, by: str, where: str = "") -> dict[str, str]:
    return {f"{{{{{by}}}}}": f"sum by ({by}) (rate({metric}{{{where}}}[$__rate_interval]))"}


ROWS: dict[str, tuple[Panel, ...]] = {
    "Promises": (
        Panel(
            "Enforcement violations",
            {"violations": "sum(increase(toolgate_enforcement_violations_total[$__range]))"},
            description="Completed calls that violate their schema although masks enforce all of "
            "it. Each one is a bug.",
            kind="stat",
            red_above=0.5,
        ),
        Panel(
            "Calls given up",
            {"given up": "sum(rate(toolgate_given_up_calls_total[$__rate_interval]))"}
            | rates("toolgate_resamples_total", "before"),
            "ops",
            "Calls that no attempt made valid, and choices that were sampled again.",
        ),
        Panel(
            "Calls checked after sampling",
            {
                "{{verdict}}": "sum by (verdict) "
                "(rate(toolgate_residual_calls_total[$__rate_interval]))",
                "custom {{result}}": "sum by (result) "
                "(rate(toolgate_custom_calls_total[$__rate_interval]))",
                "repetitions": "sum(rate(toolgate_repetitions_total[$__rate_interval]))",
            },
            "ops",
        ),
    ),
    "Requests": (
        Panel("Requests by status", rates("toolgate_requests_total", "status", MODEL), "reqps"),
        Panel("Requests by API", rates("toolgate_requests_total", "surface", MODEL), "reqps"),
        Panel("Requests by key", rates("toolgate_requests_total", "key", MODEL), "reqps"),
        Panel(
            "In flight", {"{{surface}}": "sum by (surface) (toolgate_requests_in_flight)"}, "short"
        ),
        Panel(
            "Tokens",
            {
                "{{model}} {{direction}}": "sum by (model, direction) "
                f"(rate(toolgate_tokens_total{{{MODEL}}}[$__rate_interval]))"
            },
            "short",
            "Also of other providers' models.",
        ),
        Panel(
            "Refused by limits and keys",
            rates("toolgate_limited_total", "limit") | rates("toolgate_keys_refused_total", "code"),
            "reqps",
        ),
        Panel(
            "Tools that the gateway runs",
            {
                "{{kind}} {{server}} {{result}}": "sum by (kind, server, result) "
                "(rate(toolgate_tool_calls_total[$__rate_interval]))"
            },
            "ops",
        ),
        Panel(
            "Omissions",
            rates("toolgate_omissions_total", "what"),
            "reqps",
            "Requests of which the model did not see all as it was sent: hosted tools that were "
            "left out, and changes to the history.",
        ),
    ),
    "Times": (
        Panel("First token", quantiles("toolgate_first_token_seconds"), "s"),
        Panel("Between tokens", quantiles("toolgate_inter_token_seconds"), "s"),
        Panel("Tools", quantiles("toolgate_tool_seconds", "kind", where=""), "s"),
        Panel("Whole response", quantiles("toolgate_request_seconds"), "s"),
    ),
    "Grammars": (
        Panel("Known and new grammars", rates("toolgate_grammars_total", "verdict"), "ops"),
        Panel(
            "Compile time",
            quantiles("toolgate_backend_grammar_compile_seconds", "engine", where=""),
            "s",
        ),
        Panel(
            "Refused schemas",
            rates("toolgate_grammars_refused_total", "code")
            | {
                "killed: {{limit}}": "sum by (limit) "
                "(rate(toolgate_backend_quarantine_kills_total[$__rate_interval]))"
            },
            "ops",
        ),
        Panel(
            "Loaded grammars",
            {"{{instance}}": "max by (instance) (toolgate_backend_loaded_grammars)"},
        ),
        Panel(
            "Records rejected",
            {
                "verdict": "sum(rate(toolgate_records_dropped_total[$__rate_interval]))",
                "blob": "sum(rate(toolgate_backend_blob_rejects_total[$__rate_interval]))",
            },
            "ops",
        ),
    ),
    "Backends and Redis": (
        Panel("Backends up", {"{{backend}}": "min by (backend) (toolgate_backend_up)"}, "short"),
        Panel(
            "Failover and affinity",
            {
                "moved": "sum(rate(toolgate_moved_total[$__rate_interval]))",
                "resent": "sum(rate(toolgate_resent_total[$__rate_interval]))",
            }
            | rates("toolgate_prefix_affinity_total", "sent"),
            "reqps",
        ),
        Panel("Redis exchanges", quantiles("toolgate_redis_seconds", where=""), "s"),
        Panel("Redis errors", rates("toolgate_redis_errors_total", "kind"), "ops"),
        Panel(
            "Circuit breakers open",
            {
                "keys {{instance}}": "max by (instance) (toolgate_keys_redis_breaker_open)",
                "grammars {{instance}}": "max by (instance) (toolgate_redis_breaker_open)",
                "responses {{instance}}": "max by (instance) "
                "(toolgate_responses_redis_breaker_open)",
                "reasoning {{instance}}": "max by (instance) "
                "(toolgate_kept_reasoning_redis_breaker_open)",
            },
        ),
        Panel("Stored responses", rates("toolgate_responses_stored_total", "result"), "ops"),
    ),
}


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
            }
        )
        top += 1
        for at, panel in enumerate(row):
            x, y = at % COLUMNS * WIDTH, top + at // COLUMNS * HEIGHT
            place = {"x": x, "y": y, "w": WIDTH, "h": HEIGHT}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_panel(panel)})
        top += -(-len(row) // COLUMNS) * HEIGHT
    return {
        "uid": "toolgate",
        "title": "Toolgate",
        "tags": ["toolgate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source_variable(), _model_variable()]},
        "panels": panels,
    }


def _panel(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_above is not None:
        steps.append({"color": "red", "value": panel.red_above})
    defaults = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": SOURCE,
                "expr": expression.replace("{}", ""),
                "legendFormat": legend,
            }
            for at, (legend, expression) in enumerate(panel.queries.items())
        ],
    }


def _source_variable() -> dict[str, Any]:
    return {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _model_variable() -> dict[str, Any]:
    return {
        "name": "model",
        "label": "Model",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(toolgate_requests_total, model)",
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
    }


if __name__ == "__main__":
    write_or_check({TARGET: json.dumps(dashboard(), indent=1) + "\n"})

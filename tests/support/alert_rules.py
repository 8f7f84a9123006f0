"""The metrics and values of labels that deploy/prometheus/rules.yml names."""

import re
from pathlib import Path

import yaml

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.yml"
BY_MODEL = {
    "toolgate_first_token_seconds_bucket",
    "toolgate_inter_token_seconds_bucket",
    "toolgate_requests_total",
}
"""Metrics whose rules compare many requests of a model. Their series begin with its requests."""

_SELECTOR = re.compile(r"\b(toolgate_[a-z_]+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)=(~?)"([^"]*)"')


def missing_series(exposition, *, backend):
    """Return the series in the rules that the metrics of a process lack. `backend`: whether it is
    a backend or a gateway."""
    lines = [line for line in exposition.splitlines() if not line.startswith("#")]
    return [
        f"{name}{{{label}}}"
        for name, label in sorted(_series())
        if _is_of_backend(name) == backend
        and not any(re.match(rf"{name}[{{ ]", line) and label in line for line in lines)
    ]


def _is_of_backend(name):
    return name.startswith("toolgate_backend_") and name != "toolgate_backend_up"


def _series():
    found = set()
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            for name, matchers in _SELECTOR.findall(rule["expr"]):
                if name in BY_MODEL:
                    continue
                found.add((name, ""))
                for label, is_pattern, value in _MATCHER.findall(matchers):
                    values = value.split("|") if is_pattern else [value]
                    found |= {(name, f'{label}="{each}"') for each in values}
    assert found
    return found

"""Our metrics are part of vLLM's /metrics, in both of its modes.

tests/gateway/engines/test_drafts.py looks at those of a server with several API processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.alert_rules import missing_series

SCRAPE = """
from fastapi import FastAPI
from fastapi.testclient import TestClient
from toolgate_backend.grammars import metrics
from toolgate_core.wire import GrammarVerdict
from vllm.entrypoints.serve.instrumentator.metrics import attach_router

app = FastAPI()
attach_router(app)
print(TestClient(app).get("/metrics").text, end="# events\\n")
metrics.QUARANTINE_KILLS.labels("cpu").inc()
metrics.LOADED_GRAMMARS.set(3)
verdict = GrammarVerdict(key="k", status="ready", engine="xgrammar", compile_ms=3.0)
metrics.compiled(verdict, place="worker")
print(TestClient(app).get("/metrics").text)
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["one", "several"])
def test_metrics_are_exposed_by_vllm_before_the_first_event(tmp_path: Path, processes: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PROMETHEUS_MULTIPROC_DIR"}
    if processes == "several":
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(tmp_path)
    scraped = subprocess.run(
        [sys.executable, "-c", SCRAPE], env=environment, capture_output=True, text=True, check=True
    )
    fresh, _, scraped_text = scraped.stdout.partition("# events\n")
    assert missing_series(fresh, backend=True) == []
    assert 'toolgate_backend_quarantine_kills_total{limit="cpu"} 1.0' in scraped_text
    assert "toolgate_backend_loaded_grammars 3.0" in scraped_text
    labels = '{engine="xgrammar",place="worker"}'
    assert f"toolgate_backend_grammar_compile_seconds_sum{labels} 0.003" in scraped_text

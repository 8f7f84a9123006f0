"""LiteLLM's OpenTelemetry callback gets results that are no response of a model."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

import pytest
from litellm.integrations.opentelemetry import OpenTelemetry, OpenTelemetryConfig
from litellm.llms.base_llm.search.transformation import SearchResponse
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolgate_proxy.litellm_host.callbacks.spans import EVENTS, repair_spans


@pytest.mark.parametrize("result", [["a tool"], SearchResponse(results=[], object="search")])
async def test_a_result_that_is_no_response_is_a_span_without_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, result: Any
) -> None:
    for name in EVENTS:
        monkeypatch.setattr(OpenTelemetry, name, getattr(OpenTelemetry, name))
    repair_spans()
    monkeypatch.setattr(logging.getLogger("LiteLLM"), "handlers", [caplog.handler])
    spans = InMemorySpanExporter()
    log = OpenTelemetry(OpenTelemetryConfig(exporter=spans, skip_set_global=True))
    now = datetime.now()
    values = {"id": "c1", "call_type": "asearch", "metadata": {}, "hidden_params": {}}
    event = {"standard_logging_object": values, "litellm_params": {}, "optional_params": {}}
    await log.async_log_success_event(
        kwargs={**event, "model": "searx"}, response_obj=result, start_time=now, end_time=now
    )
    assert [record.getMessage() for record in caplog.records] == []
    span = spans.get_finished_spans()[0]
    assert (span.attributes or {})["gen_ai.operation.name"] == "asearch"

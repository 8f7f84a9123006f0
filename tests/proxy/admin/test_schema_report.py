"""Schema reports by the command line without a gateway."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.support.schemas.report_tools import ENTRIES, UNIQUE
from toolgate_core.schema.preparation.advice import ADVICE
from toolgate_proxy.cli.main import app


def test_schema_command_reports_keywords_without_a_gateway(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(ENTRIES))
    result = CliRunner().invoke(app, ["schema", str(path)])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    at = lines.index("set_tags: checked in all forms")
    why, rewrite = ADVICE["uniqueItems"]
    assert lines[at + 1 : at + 4] == [f"  {UNIQUE.pointer}", f"    {why}", f"    {rewrite}"]
    assert "plain: masked in all forms" in lines
    assert "  at /properties/a/$ref" in lines
    path.write_text(json.dumps(ENTRIES[:1]))
    assert CliRunner().invoke(app, ["schema", str(path)]).exit_code == 0
    path.write_text("{")
    assert CliRunner().invoke(app, ["schema", str(path)]).exit_code == 2

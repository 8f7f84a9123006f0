"""The report as JUnit XML, for CI."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ..engine.run import Run
from ..engine.target import Target
from ..terms import Verdict
from .summary import count

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot represent."""


def junit(run: Run, target: Target) -> str:
    total = count(run.results)
    root = ElementTree.Element(
        "testsuite",
        name=f"toolgate verify {target.url}",
        tests=str(len(run.results)),
        failures=str(total.failed),
        skipped=str(total.refused + total.skipped),
        time=f"{run.seconds:.2f}",
    )
    for result in run.results:
        check = result.check
        case = ElementTree.SubElement(
            root, "testcase", classname=f"{check.api}.{check.family}", name=check.id
        )
        if result.verdict == Verdict.FAIL:
            failure = ElementTree.SubElement(
                case, "failure", message=_clean(result.message), type=check.severity
            )
            exchange = result.exchange
            command = target.curl(exchange.request, check.api) if exchange else ""
            failure.text = _clean(f"{check.rule}\n{check.source.url}\n{command}")
        elif result.verdict in (Verdict.SKIP, Verdict.REFUSED):
            text = f"{result.verdict}: {result.message}"
            ElementTree.SubElement(case, "skipped", message=_clean(text))
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)

"""The two measures: JSON-Schema-Test-Suite and MaskBench, from $TOOLGATE_SHARED."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support import shared_data
from tests.support.schemas.judge import Judge, Judged
from tests.support.shared_data import MASKBENCH, path_of, records
from toolgate_backend.grammars.offline import verdicts
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.wire import GrammarVerdict

SUITE = path_of(shared_data.SUITE)
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}


@dataclass(frozen=True)
class Case:
    """One schema with its instances. `group`: the suite's file, MaskBench's stratum."""

    source: str
    group: str
    name: str
    schema: Any
    instances: list[tuple[bool | None, Any]]
    optional: bool = False


@dataclass(frozen=True)
class Result:
    case: Case
    judged: Judged


def suite() -> Iterator[Case]:
    """The required tests, and the optional ones of formats."""
    with tarfile.open(SUITE) as tar:
        for member in tar:
            _, _, path = member.name.partition("/tests/")
            draft, *folders = path.split("/")
            if not path.endswith(".json") or folders[:-1] not in ([], ["optional", "format"]):
                continue
            if draft not in DRAFTS:  # the package has all
                continue
            content = tar.extractfile(member)
            assert content is not None
            for case in json.load(content):
                schema = case["schema"]
                if isinstance(schema, dict):
                    schema = {"$schema": DRAFTS[draft]} | schema
                yield Case(
                    draft,
                    folders[-1].removesuffix(".json"),
                    case["description"],
                    schema,
                    [(test["valid"], test["data"]) for test in case["tests"]],
                    optional=len(folders) > 1,
                )


def maskbench() -> Iterator[Case]:
    for case in records(MASKBENCH):
        instances = [(test["valid"], test["data"]) for test in case["tests"]]
        yield Case("maskbench", case["stratum"], case["id"], case["schema"], instances)


def judged(cases: Iterator[Case], judge: Judge, *, open_objects: bool = False) -> list[Result]:
    return [
        Result(case, judge.judge(case.schema, case.instances, open_objects=open_objects))
        for case in cases
    ]


SCHEMAS = path_of(shared_data.TOOLS)
FORMS = ("qwen3", "glm47", "qwen3_coder", "deepseek_v32", "minimax_m3", "gemma4", "lfm2_5")


def real_tools(step: int = 1) -> list[dict[str, Any]]:
    """Every `step`-th tool whose schema can be read, as name and canonical parameters."""
    tools = []
    with gzip.open(SCHEMAS, "rt", encoding="utf-8") as lines:
        for line in [*lines][::step]:
            try:
                parameters = canonical_parameters(json.loads(line)["schema"])
            except ToolgateError:
                continue
            tools.append({"name": "tool", "parameters": parameters})
    return tools


def verdicts_by_form() -> dict[str, list[GrammarVerdict]]:
    tools = real_tools()
    return {name: verdicts(name, tools) for name in FORMS}

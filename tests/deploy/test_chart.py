"""The chart and the manifests rendered from it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolgate_core.version import VERSION
from toolgate_proxy.cli.config_check import check

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "toolgate"
MANIFESTS = ROOT / "deploy" / "manifests"
HELM = shutil.which(os.environ.get("TOOLGATE_HELM", "helm"))
needs_helm = pytest.mark.skipif(HELM is None, reason="needs Helm, in TOOLGATE_HELM or the path")
Object = dict[str, Any]


def objects_of(text: str) -> list[Object]:
    return [each for each in yaml.safe_load_all(text) if each]


def manifests() -> list[Object]:
    resources = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    assert {*resources, "kustomization.yaml"} == {path.name for path in MANIFESTS.iterdir()}
    return [each for name in resources for each in objects_of((MANIFESTS / name).read_text())]


def template(*options: str) -> list[Object]:
    assert HELM is not None
    command = [HELM, "template", "toolgate", CHART, "--namespace", "toolgate", *options]
    return objects_of(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one(objects: list[Object], kind: str, component: str) -> Object:
    (found,) = (
        each
        for each in objects
        if (each["kind"], each["metadata"]["name"]) == (kind, f"toolgate-{component}")
    )
    return found


def container(workload: Object) -> Object:
    (found,) = workload["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def workloads(objects: list[Object]) -> Iterator[Object]:
    yield from (each for each in objects if each["kind"] in {"Deployment", "StatefulSet"})


def test_selectors_match_the_pods_and_the_services() -> None:
    objects = manifests()
    for workload in workloads(objects):
        spec = workload["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        component = labels["app.kubernetes.io/component"]
        service = one(objects, "Service", component)
        assert service["spec"]["selector"].items() <= labels.items()
        ports = {each["name"] for each in container(workload)["ports"]}
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports
        policy = one(objects, "NetworkPolicy", component)
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_only_gateways_reach_valkey_and_only_gateways_and_scrapers_reach_backends() -> None:
    objects = manifests()
    (valkey,) = one(objects, "NetworkPolicy", "valkey")["spec"]["ingress"]
    (source,) = valkey["from"]
    assert source["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
    clients, peers = one(objects, "NetworkPolicy", "backend")["spec"]["ingress"]
    assert [*clients["from"][0]] == ["podSelector"]
    assert [*clients["from"][1]] == ["namespaceSelector"]
    assert len(clients["from"]) == 2
    labels = peers["from"][0]["podSelector"]["matchLabels"]
    assert labels["app.kubernetes.io/component"] == "backend"


def test_no_secret_is_in_a_manifest_and_every_variable_is_a_setting() -> None:
    objects = manifests()
    assert "Secret" not in {each["kind"] for each in objects}
    settings = set(re.findall(r"`(TOOLGATE_\w+)`", (ROOT / "docs" / "settings.md").read_text()))
    for workload in workloads(objects):
        for variable in container(workload)["env"]:
            name = variable["name"]
            assert not name.startswith("TOOLGATE_") or name in settings
            if re.search("KEY|SECRET|PASSWORD|TOKEN", name):
                assert variable["valueFrom"]["secretKeyRef"]["name"] == "toolgate"


def test_pods_are_restricted_and_have_limits() -> None:
    for workload in workloads(manifests()):
        each = container(workload)
        assert each["securityContext"]["allowPrivilegeEscalation"] is False
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert workload["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
        assert "memory" in each["resources"]["limits"]


def test_a_backend_has_an_hour_to_load_its_model_and_is_ready_with_the_plug_in() -> None:
    each = container(one(manifests(), "StatefulSet", "backend"))
    startup = each["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 3600
    assert "/v1/toolgate/info" in " ".join(each["readinessProbe"]["exec"]["command"])
    assert each["livenessProbe"]["httpGet"]["path"] == "/health"
    assert each["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_the_gateways_configuration_is_valid_and_names_the_backends(tmp_path: Path) -> None:
    content = one(manifests(), "ConfigMap", "gateway")["data"]["litellm_config.yaml"]
    (path := tmp_path / "litellm_config.yaml").write_text(content)
    secrets = {
        "TOOLGATE_MASTER_KEY": "sk-0123456789abcdef",
        "TOOLGATE_BACKEND_KEY": "a-backend-key",
    }
    check(path, secrets)
    (deployment,) = yaml.safe_load(content)["model_list"]
    url = deployment["litellm_params"]["api_base"]
    assert url == "http://toolgate-backend-0.toolgate-backend:8000"
    shipped = yaml.safe_load((ROOT / "litellm_config.yaml").read_text())
    rendered = yaml.safe_load(content)
    assert rendered.keys() == shipped.keys()
    for section in shipped.keys() - {"model_list"}:
        assert rendered[section] == shipped[section]


def test_the_chart_has_the_version_of_the_distribution() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == VERSION
    for part in ("gateway", "backend"):
        assert values[part]["image"].endswith(f":{VERSION}")


def test_every_object_is_valid_against_the_schemas_of_kubernetes() -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for each in manifests():
        validator.validate(each, "1.31", strict=True)


@needs_helm
def test_the_manifests_are_those_of_the_chart() -> None:
    command = [sys.executable, ROOT / "scripts" / "manifests.py", "--check"]
    environment = os.environ | {"TOOLGATE_HELM": str(HELM)}
    assert subprocess.run(command, check=False, env=environment).returncode == 0


@needs_helm
def test_other_values_render_other_fleets() -> None:
    options = "backend.replicas=3,valkey.enabled=false,gateway.autoscaling.enabled=false"
    objects = template("--set", options, "--set", "gateway.replicas=4,networkPolicy.enabled=false")
    kinds = {each["kind"] for each in objects}
    assert not kinds & {"HorizontalPodAutoscaler", "NetworkPolicy"}
    assert one(objects, "Deployment", "gateway")["spec"]["replicas"] == 4
    content = one(objects, "ConfigMap", "gateway")["data"]["litellm_config.yaml"]
    assert len(yaml.safe_load(content)["model_list"]) == 3
    names = [each["name"] for each in container(one(objects, "Deployment", "gateway"))["env"]]
    assert "TOOLGATE_REDIS_URL" in names
    assert "REDIS_PASSWORD" not in names
    external = template("--set", "backend.enabled=false,backend.urls={http://a:1,http://b:1}")
    assert "StatefulSet" in {each["kind"] for each in external}  # Valkey
    content = one(external, "ConfigMap", "gateway")["data"]["litellm_config.yaml"]
    urls = [each["litellm_params"]["api_base"] for each in yaml.safe_load(content)["model_list"]]
    assert urls == ["http://a:1", "http://b:1"]

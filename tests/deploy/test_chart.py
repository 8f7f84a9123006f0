"""The Helm chart: rendered and linted with Helm's own code, which a wheel brings."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolgate_core.version import VERSION
from toolgate_proxy.ops.configuration import check

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "toolgate"
Object = dict[str, Any]
LEADER_WORKER = ("leader", "worker")
"""Roles of the nodes of a group."""

EVERYTHING: Object = yaml.safe_load(Path(__file__).with_name("everything.yaml").read_text())
"""Values that use every part of the chart."""
FLEETS = pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])


@cache
def helm() -> Any:
    """Helm, whose Go runtime does not survive a fork, so it is loaded by the first test."""
    return pytest.importorskip("helm_python")


def rendered(values: Object | None = None) -> list[Object]:
    with helm().Chart.load(CHART) as chart:
        chart.validate_schema(values)
        files = chart.render(values, name="toolgate", namespace="toolgate")
    return [each for text in files.values() for each in yaml.safe_load_all(text) if each]


def one(objects: list[Object], kind: str, component: str) -> Object:
    (found,) = (
        each
        for each in objects
        if (each["kind"], each["metadata"]["name"]) == (kind, f"toolgate-{component}")
    )
    return found


def container(workload: Object) -> Object:
    """`workload`: or its pod template."""
    (found,) = workload["spec"].get("template", workload)["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def config_of(objects: list[Object]) -> Object:
    content = one(objects, "ConfigMap", "gateway")["data"]["litellm_config.yaml"]
    config = yaml.safe_load(content)
    assert isinstance(config, dict)
    return config


def workloads(objects: list[Object]) -> Iterator[Object]:
    yield from (each for each in objects if each["kind"] in {"Deployment", "StatefulSet"})


def groups(objects: list[Object]) -> Iterator[Object]:
    yield from (each for each in objects if each["kind"] == "LeaderWorkerSet")


def pods(objects: list[Object]) -> Iterator[Object]:
    """The pod templates of all workloads."""
    yield from (each["spec"]["template"] for each in workloads(objects))
    for group in groups(objects):
        nodes = group["spec"]["leaderWorkerTemplate"]
        yield from (nodes["leaderTemplate"], nodes["workerTemplate"])


def test_helm_finds_nothing_to_improve():
    report = helm().lint(CHART, EVERYTHING, strict=True)
    assert report["errors"] == []
    assert [each["error"] for each in report["messages"]] == ["icon is recommended"]


@FLEETS
def test_selectors_match_the_pods_and_the_services(values):
    objects = rendered(values)
    for workload in workloads(objects):
        spec = workload["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        component = labels["app.kubernetes.io/component"]
        service = one(objects, "Service", workload["metadata"]["name"].removeprefix("toolgate-"))
        assert service["spec"]["selector"].items() <= labels.items()
        ports = {each["name"] for each in container(workload)["ports"]}
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports
        policy = one(objects, "NetworkPolicy", component)
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize(("values", "scrapers"), [({}, []), (EVERYTHING, ["monitoring"])])
def test_only_gateways_reach_valkey_and_only_gateways_and_scrapers_reach_backends(values, scrapers):
    for component, expected in (("valkey", []), ("backend", scrapers)):
        (rule,) = one(rendered(values), "NetworkPolicy", component)["spec"]["ingress"]
        gateway, *others = rule["from"]
        assert gateway["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
        namespaces = [each["namespaceSelector"]["matchLabels"] for each in others]
        assert namespaces == [{"kubernetes.io/metadata.name": name} for name in expected]
        assert rule["ports"]


def test_no_secret_is_in_a_manifest_and_every_variable_is_a_setting():
    objects = rendered(EVERYTHING)
    assert "Secret" not in {each["kind"] for each in objects}
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    settings = set(re.findall(r"`(TOOLGATE_\w+)`", page))
    for pod in pods(objects):
        for variable in container(pod)["env"]:
            name = variable["name"]
            assert not name.startswith("TOOLGATE_") or name in settings
            if re.search("KEY|SECRET|PASSWORD|TOKEN", name):
                assert variable["valueFrom"]["secretKeyRef"]["name"] in {"toolgate", "providers"}


def test_pods_are_restricted_and_have_limits():
    for pod in pods(rendered(EVERYTHING)):
        each = container(pod)
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert each["securityContext"]["allowPrivilegeEscalation"] is False
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert "memory" in each["resources"]["limits"]


def test_a_backend_has_an_hour_to_load_its_model_and_is_ready_with_the_plug_in():
    each = container(one(rendered(), "StatefulSet", "backend-toolgate"))
    startup = each["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 3600
    assert "/v1/toolgate/info" in " ".join(each["readinessProbe"]["exec"]["command"])
    assert each["livenessProbe"]["httpGet"]["path"] == "/health"
    assert each["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_the_gateways_configuration_is_the_shipped_one_with_the_backends(tmp_path):
    objects = rendered()
    content = one(objects, "ConfigMap", "gateway")["data"]["litellm_config.yaml"]
    (path := tmp_path / "litellm_config.yaml").write_text(content)
    secrets = {
        "TOOLGATE_MASTER_KEY": "sk-0123456789abcdef",
        "TOOLGATE_BACKEND_KEY": "a-backend-key",
    }
    check(path, secrets)
    config = config_of(objects)
    (deployment,) = config.pop("model_list")
    url = deployment["litellm_params"]["api_base"]
    assert url == "http://toolgate-backend-toolgate-0.toolgate-backend-toolgate:8000"
    shipped = yaml.safe_load((ROOT / "litellm_config.yaml").read_text())
    assert config == {name: part for name, part in shipped.items() if name != "model_list"}


def test_each_model_has_its_backends_and_their_deployments():
    objects = rendered(EVERYTHING)
    config = config_of(objects)
    rows = [
        (row["model_name"], row["litellm_params"].get("api_base")) for row in config["model_list"]
    ]
    small = "toolgate-backend-small"
    assert rows == [
        ("small", f"http://{small}-0.{small}:8000"),
        ("small", f"http://{small}-1.{small}:8000"),
        ("Qwen/Qwen3-32B", "http://elsewhere:8000"),
        ("Qwen/Qwen3-32B", "http://toolgate-backend-large-0.toolgate-backend-large:8000"),
        ("elsewhere", "http://elsewhere:8001"),
        ("scaled", "dns+http://toolgate-backend-scaled:8000"),
        ("deepseek", "http://toolgate-backend-huge-0.toolgate-backend-huge:8000"),
        ("deepseek", "http://toolgate-backend-huge-1.toolgate-backend-huge:8000"),
        ("huge-scaled", "dns+http://toolgate-backend-huge-scaled:8000"),
        ("hosted", None),
    ]
    assert config["model_list"][0]["litellm_params"]["weight"] == 2
    assert config["router_settings"]["fallbacks"] == [{"small": ["hosted"]}]
    assert config["router_settings"]["disable_cooldowns"] is True
    large = one(objects, "StatefulSet", "backend-large")
    assert large["spec"]["replicas"] == 1
    limits = container(large)["resources"]["limits"]
    assert limits == {"memory": "96Gi", "nvidia.com/gpu": 4}
    assert {"--served-model-name=Qwen/Qwen3-32B", "--tensor-parallel-size=4"} <= set(
        container(large)["args"]
    )


def test_zero_and_empty_values_of_a_model_replace_the_defaults():
    values = {
        "models": [{"name": "a", "model": "a", "replicas": 0, "gpus": 0, "args": []}],
        "backend": {"args": ["--enforce-eager"]},
    }
    objects = rendered(values)
    backend = one(objects, "StatefulSet", "backend-a")
    assert backend["spec"]["replicas"] == 0
    assert "nvidia.com/gpu" not in container(backend)["resources"]["limits"]
    assert "--enforce-eager" not in container(backend)["args"]
    assert config_of(objects)["model_list"] == []


def test_pods_get_the_fields_of_their_values():
    """The fields that are added to the chart's own: annotations, volumes and mounts."""
    objects = rendered(EVERYTHING)
    scaled = next(each for each in EVERYTHING["models"] if each["name"] == "scaled")
    for kind, name, values in (
        ("Deployment", "gateway", EVERYTHING["gateway"]),
        ("StatefulSet", "backend-scaled", scaled),
        ("StatefulSet", "valkey", EVERYTHING["valkey"]),
    ):
        pod = one(objects, kind, name)["spec"]["template"]
        spec, each = pod["spec"], container(pod)
        assert values["podAnnotations"].items() <= pod["metadata"]["annotations"].items()
        assert each["imagePullPolicy"] == "Always"
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        plain = ("runtimeClassName", "nodeSelector", "affinity", "tolerations", "initContainers")
        for field in plain:
            assert spec.get(field) == values.get(field)
        if name != "valkey":
            assert values["volumes"][0] in spec["volumes"]
            assert values["volumeMounts"][0] in each["volumeMounts"]
        mounted = {mount["name"] for mount in each["volumeMounts"]}
        claims = one(objects, kind, name)["spec"].get("volumeClaimTemplates", ())
        volumes = [*spec.get("volumes", ()), *(claim["metadata"] for claim in claims)]
        assert mounted == {volume["name"] for volume in volumes}
        assert len(volumes) == len(mounted)


def test_pods_share_a_claim_of_the_operator_or_of_their_model_or_have_one_each():
    objects = rendered(EVERYTHING)

    def claimed(pod: Object) -> list[str]:
        found = (each.get("persistentVolumeClaim") for each in pod["spec"]["volumes"])
        return [each["claimName"] for each in found if each]

    scaled = one(objects, "StatefulSet", "backend-scaled")["spec"]
    assert claimed(scaled["template"]) == ["models"]
    assert "volumeClaimTemplates" not in scaled
    huge = one(objects, "LeaderWorkerSet", "backend-huge")["spec"]["leaderWorkerTemplate"]
    for template in ("leaderTemplate", "workerTemplate"):
        assert claimed(huge[template]) == ["toolgate-backend-huge"]
    claims = [each["metadata"]["name"] for each in objects if each["kind"].endswith("Claim")]
    assert claims == ["toolgate-backend-huge"]
    claim = one(objects, "PersistentVolumeClaim", "backend-huge")["spec"]
    assert claim["accessModes"] == ["ReadWriteMany"]
    assert claim["resources"]["requests"]["storage"] == "2Ti"
    small = one(objects, "StatefulSet", "backend-small")["spec"]
    assert claimed(small["template"]) == []
    assert small["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOnce"]
    scaled_group = one(objects, "LeaderWorkerSet", "backend-huge-scaled")["spec"]
    (claim,) = scaled_group["leaderWorkerTemplate"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "models"


def test_a_model_on_several_nodes_is_a_group_whose_leader_has_the_api():
    objects = rendered(EVERYTHING)
    spec = one(objects, "LeaderWorkerSet", "backend-huge")["spec"]
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (2, 2)
    leader, worker = (spec["leaderWorkerTemplate"][f"{role}Template"] for role in LEADER_WORKER)
    node = ["--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)"]
    node += ["--master-addr=$(LWS_LEADER_ADDRESS)"]
    arguments = container(leader)["args"]
    assert {*node, "--pipeline-parallel-size=2"} <= {*arguments}
    at = arguments.index("--tensor-parallel-size=8")
    assert container(worker)["args"] == [*arguments[:at], "--headless", *arguments[at:]]
    assert {"ports", "startupProbe", "readinessProbe"} <= container(leader).keys()
    assert not [field for field in container(worker) if field == "ports" or "Probe" in field]
    assert leader["metadata"] == worker["metadata"]
    labels = leader["metadata"]["labels"]
    service = one(objects, "Service", "backend-huge")["spec"]
    selector = service["selector"].items()
    assert selector - labels.items() == {("leaderworkerset.sigs.k8s.io/worker-index", "0")}
    assert service["publishNotReadyAddresses"] is True
    policy = one(objects, "NetworkPolicy", "backend-huge")["spec"]
    among = policy["podSelector"]
    assert policy["ingress"] == [{"from": [{"podSelector": among}]}]
    assert among["matchLabels"] == labels
    budget = one(objects, "PodDisruptionBudget", "backend-huge")["spec"]["selector"]
    assert budget["matchLabels"] == labels


def test_vllm_has_the_options_of_a_group():
    spec = one(rendered(EVERYTHING), "LeaderWorkerSet", "backend-huge")["spec"]
    worker = container(spec["leaderWorkerTemplate"]["workerTemplate"])["args"]
    options = {each.split("=")[0] for each in worker if "LWS_" in each or each == "--headless"}
    source = "".join(map(vllm_source, ("engine/arg_utils.py", "entrypoints/cli/serve.py")))
    attributes = {option: option.removeprefix("--").replace("-", "_") for option in options}
    assert len(options) == 4
    assert not [each for each in attributes.values() if f".{each}" not in source]


def vllm_source(path: str) -> str:
    """A module of vLLM as text, because importing vLLM takes seconds."""
    found = find_spec("vllm")
    if found is None or found.origin is None:
        pytest.skip("vLLM is not installed")
    return (Path(found.origin).parent / path).read_text()


def test_autoscaled_backends_have_one_name_and_a_number_of_replicas_that_keda_sets():
    objects = rendered(EVERYTHING)
    for name, kind, api, bounds in (
        ("scaled", "StatefulSet", "apps/v1", (1, 4)),
        ("huge-scaled", "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", (2, 3)),
    ):
        assert "replicas" not in one(objects, kind, f"backend-{name}")["spec"]
        spec = one(objects, "ScaledObject", f"backend-{name}")["spec"]
        target = {"apiVersion": api, "kind": kind, "name": f"toolgate-backend-{name}"}
        assert spec["scaleTargetRef"] == target
        assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == bounds
    assert {each["metadata"]["name"] for each in objects if each["kind"] == "ScaledObject"} == {
        "toolgate-backend-scaled",
        "toolgate-backend-huge-scaled",
    }


def test_the_query_of_an_autoscaler_counts_the_requests_that_the_engines_report():
    objects = rendered(EVERYTHING)
    (trigger,) = one(objects, "ScaledObject", "backend-scaled")["spec"]["triggers"]
    assert trigger["authenticationRef"] == {"name": "prometheus"}
    metadata = trigger["metadata"]
    assert metadata["authModes"] == "bearer"
    assert metadata["threshold"] == "32"
    assert metadata["ignoreNullValues"] == "false"  # a lost series must not remove replicas
    labels = dict(re.findall(r'(\w+)=~?"([^"]*)"', metadata["query"]))
    monitor = one(objects, "PodMonitor", "backend")["spec"]["podMetricsEndpoints"][0]
    assert labels["job"] == monitor["relabelings"][0]["replacement"]
    assert (labels["namespace"], labels["model_name"]) == ("toolgate", "scaled")
    (trigger,) = one(objects, "ScaledObject", "backend-huge-scaled")["spec"]["triggers"]
    assert trigger["metadata"]["threshold"] == "100.5"
    gauges = set(re.findall(r'"(vllm:\w+)"', vllm_source("v1/metrics/loggers.py")))
    counted = {each for each in gauges if re.fullmatch(labels["__name__"], each)}
    assert counted == {"vllm:num_requests_running", "vllm:num_requests_waiting"}


@pytest.mark.parametrize(
    "change",
    [
        {"models": [{"name": "toolgate", "servedModelName": "other", "model": "Qwen/Qwen3-8B"}]},
        {"models": [{"name": "toolgate", "model": "Qwen/Qwen3-8B", "replicas": 2}]},
        {"litellm": {"router_settings": {"num_retries": 1}}},
    ],
)
def test_a_changed_configuration_replaces_the_pods_of_the_gateway(change):
    before, after = (
        one(rendered(values), "Deployment", "gateway")["spec"]["template"]
        for values in ({}, change)
    )
    assert before != after


@pytest.mark.parametrize(
    "values",
    [
        {"gatewy": {}},
        {"backend": {"model": "Qwen/Qwen3-8B"}},
        {"gateway": {"replica": 2}},
        {"gateway": {"ingress": {"enabled": True}}},
        {"gateway": {"env": {"OPENAI_API_KEY": {"secretName": "providers"}}}},
        {"models": [{"name": "a", "model": "a", "gpu": 1}]},
        {"models": [{"name": "a", "model": "a", "resources": {"limit": {}}}]},
        {"models": [{"name": "A/b", "model": "a"}]},
        {"models": [{"name": "neither"}]},
        {"monitoring": {"podMonitor": True}},
        {"models": [{"name": "a", "model": "a", "nodes": 0}]},
        {"backend": {"autoscaling": {"minReplicas": 0}}},
        {"backend": {"cache": {"claim": "models"}}},
        {"gateway": {"imagePullPolicy": "always"}},
        {"valkey": {"volumes": []}},
    ],
    ids=str,
)
def test_misspelt_and_missing_values_are_refused(values):
    with pytest.raises(helm().HelmError):
        rendered(values)


PAGES = (ROOT / "deploy" / "README.md", ROOT / "docs" / "guide" / "scaling.md")


def test_the_examples_of_the_pages_are_values_of_the_chart():
    blocks = [
        yaml.safe_load(block)
        for page in PAGES
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)
    ]
    known = yaml.safe_load((CHART / "values.yaml").read_text()).keys()
    examples = [each for each in blocks if isinstance(each, dict) and each.keys() <= known]
    assert len(examples) == 4
    kinds = [{each["kind"] for each in rendered(values)} for values in examples]
    for kind in ("LeaderWorkerSet", "ScaledObject", "PersistentVolumeClaim", "Ingress"):
        assert sum(kind in each for each in kinds) == 1, kind


def test_scraped_jobs_have_the_names_that_the_alerts_use():
    objects = rendered(EVERYTHING)
    rules = one(objects, "PrometheusRule", "alerts")["spec"]["groups"]
    assert rules == yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text())["groups"]
    named = set(re.findall(r'up\{job="([\w-]+)"\}', str(rules)))
    assert len(named) == 2
    relabelled = set()
    for component in ("gateway", "backend"):
        monitor = one(objects, "PodMonitor", component)
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        (relabelling,) = endpoint["relabelings"]
        assert relabelling["targetLabel"] == "job"
        assert endpoint["authorization"]["credentials"]["key"] == "TOOLGATE_METRICS_TOKEN"
        relabelled.add(relabelling["replacement"])
        selector = monitor["spec"]["selector"]["matchLabels"]
        labels = [each["metadata"]["labels"] for each in pods(objects)]
        assert any(selector.items() <= each.items() for each in labels)
    assert relabelled == named


def test_the_dashboard_is_in_a_config_map_for_grafanas_sidecar():
    dashboard = one(rendered(EVERYTHING), "ConfigMap", "dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    shown = dashboard["data"]["toolgate.json"].strip()
    assert shown == (ROOT / "deploy" / "grafana" / "toolgate.json").read_text().strip()


def test_other_values_render_other_fleets():
    values = {
        "valkey": {"enabled": False},
        "gateway": {"autoscaling": {"enabled": False}, "replicas": 4},
        "networkPolicy": {"enabled": False},
        "serviceAccount": {"create": False, "name": "mine"},
    }
    objects = rendered(values)
    kinds = {each["kind"] for each in objects}
    assert not kinds & {"HorizontalPodAutoscaler", "NetworkPolicy", "ServiceAccount", "Ingress"}
    gateway = one(objects, "Deployment", "gateway")
    assert gateway["spec"]["replicas"] == 4
    assert gateway["spec"]["template"]["spec"]["serviceAccountName"] == "mine"
    names = [each["name"] for each in container(gateway)["env"]]
    assert "TOOLGATE_REDIS_URL" in names
    assert "REDIS_PASSWORD" not in names


def test_with_a_database_gateways_have_its_url_and_litellms_keys():
    objects = rendered({"database": {"enabled": True, "secret": "postgres"}})
    general = config_of(objects)["general_settings"]
    assert not {"custom_auth", "custom_auth_run_common_checks"} & general.keys()
    variables = container(one(objects, "Deployment", "gateway"))["env"]
    reference = {"name": "postgres", "key": "DATABASE_URL"}
    assert {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": reference}} in variables


def test_the_chart_has_the_version_of_the_distribution():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == VERSION
    for part in ("gateway", "backend"):
        assert values[part]["image"].endswith(f":{VERSION}")


@FLEETS
def test_every_object_is_valid_against_the_schemas_of_kubernetes(values):
    """Objects of the Prometheus operator and of KEDA have no schema here, and neither have groups
    of nodes, of which the pods are validated."""
    validator = pytest.importorskip("kubernetes_validate")
    objects = rendered(values)
    for each in objects:
        if each["apiVersion"].endswith(".k8s.io/v1") or "." not in each["apiVersion"]:
            validator.validate(each, "1.31", strict=True)
    for pod in pods(objects):
        named = {"apiVersion": "v1", "kind": "Pod"} | pod
        validator.validate(named, "1.31", strict=True)

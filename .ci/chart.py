"""Renders the Helm chart, compares the plain manifests with it, and validates every variant.

    .ci/chart           checks
    .ci/chart write     writes packages/ops/kubernetes/*.yaml

`.ci/chart` installs what this imports. The renderer is an implementation of Go templates and of Helm's
functions; Helm itself is in no registry that the gate uses.
"""

import json
import pathlib
import sys
import tomllib

import jsonschema
import kubernetes_validate
import yaml
from gotpl.exts.helm.runtime import HelmTemplateEngine

OPS = pathlib.Path(__file__).resolve().parent.parent / "packages/ops"
CHART = OPS / "chart"
VERSIONS = ["1.35", "1.36", "1.37"]
# Resources of operators, which have no schema there.
CUSTOM = {"ServiceMonitor"}

HEADERS = {
    "atlatl.yaml": """\
# A team server: three replicas of `atlatl serve`, which keep nothing. PostgreSQL and the bucket are yours.
# Before the first start: the Secrets `atlatl-database` (password) and `atlatl-bucket` (AWS_ACCESS_KEY_ID,
# AWS_SECRET_ACCESS_KEY), the host names and the bucket below, and migrate.yaml.
# Rendered from ../chart with its default values: change those, then run `.ci/chart write`.
""",
    "migrate.yaml": """\
# Run before the first server of a version: kubectl delete job atlatl-migrate --ignore-not-found, then
# kubectl apply -f migrate.yaml. It connects as the owner of the schema, with the Secret `atlatl-migration` (password).
# Rendered from ../chart with its default values: change those, then run `.ci/chart write`.
""",
}

# Values that reach every branch of the templates.
VARIANTS = {
    "default": {},
    "everything": {
        "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": ["registry"]},
        "embedder": {"model": "openai:https://models.example/v1#small", "secret": "embedder"},
        "traces": {"endpoint": "https://traces.example", "secret": "traces"},
        "trustedCertificates": {"configMap": "certificates"},
        "server": {"allowedHosts": ["memory.example", "memory.internal"]},
        "settings": {"server.database_ms_per_second": "500", "server.audit": "/tmp/audit \"x\".jsonl"},
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/atlatl"}},
        "podLabels": {"azure.workload.identity/use": "true"},
        "autoscaling": {"enabled": True},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "only", "operator": "Equal", "value": "servers", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}},
        "priorityClassName": "servers",
        "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
        "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
        "networkPolicy": {"metadataEndpoint": True},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "identity of the pod": {
        "bucket": {"url": "gs://results/atlatl", "settings": {}, "secret": "", "secretKeys": []},
        "serviceAccount": {"create": False, "name": "existing"},
    },
    "little": {
        "migration": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "podAnnotations": {},
        "image": {"tag": "9.9.9"},
    },
}

# Values that the schema refuses.
REFUSED = [
    {"replica": 3},
    {"database": {"url": "mysql://db.example/memories"}},
    {"database": {"url": "postgres://memories:secret@db.example/memories"}},
    {"migration": {"url": "postgres://owner:secret@db.example/memories"}},
    {"settings": {"server.database_ms_per_second": 500}},
    {"image": {"digest": "latest"}},
    {"bucket": {"settings": {"AWS_SECRET_ACCESS_KEY": "secret"}}},
    {"bucket": {"secretKeys": ["AWS_WEB_IDENTITY_TOKEN"]}},
    {"server": {"drainSeconds": -1}},
]


def merged(base, over):
    """The values with those of a user above, as Helm merges them."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return base | {key: merged(base.get(key), value) for key, value in over.items()}


def check_values(values):
    jsonschema.Draft7Validator(json.loads((CHART / "values.schema.json").read_text())).validate(values)


def render(over):
    """The rendered files by name, without empty ones."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = merged(yaml.safe_load((CHART / "values.yaml").read_text()), over)
    check_values(values)
    base = f"{chart['name']}/templates"
    sources = {f"{base}/{file.name}": file.read_text() for file in sorted((CHART / "templates").iterdir())}
    context = {
        "Values": values,
        "Chart": {key[0].upper() + key[1:]: value for key, value in chart.items()},
        "Release": {"Name": "atlatl", "Namespace": "default", "Service": "Helm"},
    }
    names = [name for name in sources if not name.endswith(".tpl")]
    contexts = {name: context | {"Template": {"Name": name, "BasePath": base}} for name in names}
    rendered = HelmTemplateEngine.from_sources(sources).render(contexts)
    return {pathlib.Path(name).name: text.strip() + "\n" for name, text in rendered.items() if text.strip()}


class Unique(yaml.SafeLoader):
    """YAML without repeated keys, of which the parser would silently take the last."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"repeated key in {keys} {node.start_mark}"
        return super().construct_mapping(node, deep)


def resources(files):
    return [one for text in files.values() for one in yaml.load_all(text, Loader=Unique) if one]


def pod_of(resource):
    return resource["spec"].get("template", {}).get("spec") if resource["kind"] in ("Deployment", "Job") else None


def check_pod(pod):
    """The restricted standard of pod security, and what the image needs."""
    security = pod["securityContext"]
    assert security["runAsNonRoot"] and security["runAsUser"] > 0, security
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}, security
    assert pod["automountServiceAccountToken"] is False
    # Otherwise a Service called atlatl sets ATLATL_SERVICE_HOST, and the program refuses variables it does not know.
    assert pod["enableServiceLinks"] is False
    mounted = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False and security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}, security
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert set(mounts) == mounted and mounts["scratch"] == "/tmp", (mounts, mounted)
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        for variable in container.get("env", []):
            # A secret comes as a file, never as a value.
            secret = any(word in variable["name"] for word in ("PASSWORD", "SECRET", "API_KEY", "HEADERS"))
            assert not secret or variable["name"].endswith("_FILE"), variable
            assert "valueFrom" not in variable, variable
    for volume in pod["volumes"]:
        assert "secret" not in volume or volume["secret"]["defaultMode"] == 0o440, volume


def check_server(found):
    """The promises of the guide: probes, drain, disruptions, who connects."""
    [deployment] = [one for one in found if one["kind"] == "Deployment"]
    [config] = [one for one in found if one["kind"] == "ConfigMap"]
    spec = deployment["spec"]["template"]["spec"]
    [server] = spec["containers"]
    settings = tomllib.loads(config["data"]["config.toml"])
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert server[probe]["httpGet"] == {"path": path, "port": "admin"}, probe
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert ports == {"http": 7171, "admin": 7190}, ports
    assert settings["server"]["listen"] == f"0.0.0.0:{ports['http']}"
    assert settings["server"]["admin"]["listen"] == f"0.0.0.0:{ports['admin']}"
    drain = settings["server"]["drain_seconds"]
    readiness = server["readinessProbe"]
    assert drain > readiness["periodSeconds"] * readiness["failureThreshold"], "it stops while it is still sent requests"
    # After the drain, the server waits up to ten seconds for requests that are still running.
    assert spec["terminationGracePeriodSeconds"] >= drain + 30
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    selectors += [one["spec"]["selector"]["matchLabels"] for one in found if one["kind"] == "PodDisruptionBudget"]
    selectors += [one["spec"]["selector"] for one in found if one["kind"] == "Service"]
    assert len(selectors) >= 3
    for selector in selectors:
        assert selector.items() <= labels.items(), selector
    [service] = [one for one in found if one["kind"] == "Service" and one["metadata"]["name"] == "atlatl"]
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"], "the admin port is not for clients"


def plain():
    """The plain manifests by name."""
    files = render({})
    files.pop("NOTES.txt")
    migration = files.pop("migration.yaml")
    order = ["serviceaccount.yaml", "configmap.yaml", "deployment.yaml", "service.yaml"]
    assert set(order) <= set(files)
    rest = [files[name] for name in sorted(files) if name not in order]
    server = "---\n".join([files[name] for name in order] + rest)
    return {"atlatl.yaml": HEADERS["atlatl.yaml"] + server, "migrate.yaml": HEADERS["migrate.yaml"] + migration}


def main():
    manifests = OPS / "kubernetes"
    if sys.argv[1:] == ["write"]:
        for name, text in plain().items():
            (manifests / name).write_text(text)
        return
    stale = [name for name, text in plain().items() if (manifests / name).read_text() != text]
    assert not stale, f"{stale}: not what the chart renders; run .ci/chart write"
    assert {file.name for file in manifests.iterdir()} == set(HEADERS)
    for name, over in VARIANTS.items():
        files = render(over)
        assert "atlatl" in files.pop("NOTES.txt")
        found = resources(files)
        for resource in found:
            for version in VERSIONS if resource["kind"] not in CUSTOM else []:
                kubernetes_validate.validate(resource, version, strict=True)
            if pod := pod_of(resource):
                check_pod(pod)
        check_server(found)
        kinds = sorted(resource["kind"] for resource in found)
        print(f"{name}: {len(kinds)} resources are valid for Kubernetes {', '.join(VERSIONS)}: {', '.join(kinds)}")
    for over in REFUSED:
        try:
            render(over)
        except jsonschema.ValidationError:
            continue
        raise AssertionError(f"values.schema.json accepts {over}")
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())
    workspace = (OPS.parent.parent / "Cargo.toml").read_text()
    for key in ("version", "appVersion"):
        # Only the workspace's own version has a line that begins so.
        assert f'\nversion = "{version[key]}"\n' in workspace, f"Chart.yaml: {key} is not the version of the program"


main()

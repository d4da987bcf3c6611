"""Manifests are pure: what they say is checked without a cluster."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.clusters.job import Job, Mount, SecretRef
from blocks.clusters.kubernetes import manifests
from blocks.clusters.kubernetes.labels import claim_label, label_value
from blocks.clusters.kubernetes.patch import merge
from blocks.clusters.kubernetes.quantity import read_bytes, read_quantity, write_bytes
from blocks.clusters.kubernetes.settings import KubernetesSettings

SETTINGS = KubernetesSettings(image="registry.example/slipway:1")
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


def run_of(**changes: Any) -> Job:
    asked: dict[str, Any] = {
        "name": "shelf-harbour-a1",
        "request_hash": "asked",
        "image": "registry.example/trainer:2",
        "command": ("train", "@", "/scratch/config.toml"),
        "init_command": ("python", "-m", "tasks.pod.program", "runs.render", "{}"),
        "mounts": (
            Mount(volume="shelf", sub_path="runs/harbour", mount_path="/volume/runs/harbour", read_only=False),
            Mount(volume="shelf"),
        ),
        "labels": {"slipway.dev/run": "harbour"},
        **changes,
    }
    return Job(**asked)


def pod_of(job: Job, settings: KubernetesSettings = SETTINGS, **changes: Any) -> Any:
    return manifests.job(job, settings, **changes)["spec"]["template"]["spec"]


def test_a_run_sees_its_volume_read_only_and_its_own_directory_writable_in_it() -> None:
    main = pod_of(run_of())["containers"][0]
    at = {mount["mountPath"]: mount for mount in main["volumeMounts"]}
    assert (at["/volume"]["readOnly"], "subPath" in at["/volume"]) == (True, False)
    assert (at["/volume/runs/harbour"]["readOnly"], at["/volume/runs/harbour"]["subPath"]) == (False, "runs/harbour")
    paths = [mount["mountPath"] for mount in main["volumeMounts"]]
    assert paths.index("/volume") < paths.index("/volume/runs/harbour")


def test_the_init_container_is_ours_has_the_whole_volume_writable_and_makes_the_runs_directory() -> None:
    (init,) = pod_of(run_of())["initContainers"]
    assert init["image"] == SETTINGS.image
    assert [m for m in init["volumeMounts"] if m["mountPath"].startswith("/volume")] == [
        {"name": "volume-0", "mountPath": "/volume", "readOnly": False}
    ]
    assert "mkdir -p" in init["command"][2]
    assert init["command"][4] == "/volume/runs/harbour"
    assert init["command"][5:] == list(run_of().init_command)


def test_a_job_starts_once_and_keeps_nothing_that_is_not_named() -> None:
    made = manifests.job(run_of(secrets={"T": SecretRef(name="hub", key="token")}), SETTINGS)
    assert (made["spec"]["backoffLimit"], made["spec"]["template"]["spec"]["restartPolicy"]) == (0, "Never")
    pod = made["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    main, init = pod["containers"][0], pod["initContainers"][0]
    assert {"name": "T", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}} in main["env"]
    assert all(variable["name"] != "T" for variable in init["env"])


def test_a_deadline_counts_from_the_start_of_the_pod_not_from_the_wait_for_room() -> None:
    made = manifests.job(run_of(deadline_seconds=60), SETTINGS)
    assert "activeDeadlineSeconds" not in made["spec"]
    assert made["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 60


def test_gpus_are_asked_for_by_the_clusters_own_names() -> None:
    settings = SETTINGS.model_copy(update={"gpu_kinds": {"h100": "NVIDIA-H100-80GB-HBM3"}})
    pod = pod_of(run_of(gpus=8, gpu_kind="h100"), settings)
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in pod["volumes"]
    assert "nvidia.com/gpu" not in pod["initContainers"][0]["resources"].get("limits", {})


def test_a_run_prefers_the_nodes_that_have_its_weights_and_waits_for_none_of_them() -> None:
    theirs = [{"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    patch = {"spec": {"affinity": {"nodeAffinity": {preferred: theirs}}}}
    settings = SETTINGS.model_copy(update={"node_cache": "/var/weights", "pod_patch": patch})

    for _ in range(2):
        pod = pod_of(run_of(node_cache=True, preferred_nodes=("gpu-1", "gpu-2"), nodes=2), settings)
        terms = pod["affinity"]["nodeAffinity"].pop(preferred)
        assert terms[0] == theirs[0]
        assert [term["preference"]["matchFields"][0]["values"] for term in terms[1:]] == [["gpu-1"], ["gpu-2"]]
        assert pod["affinity"]["nodeAffinity"] == {}, "nothing is required"
        (apart,) = pod["affinity"]["podAntiAffinity"][preferred]
        assert all(term["weight"] < apart["weight"] for term in terms), "the pods of a job stay apart"
    init = next(c for c in pod["initContainers"] if c["name"] == "init")
    assert {"name": "SLIPWAY_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}} in init["env"]
    assert "affinity" not in pod_of(run_of(node_cache=True), SETTINGS)


def test_pods_on_a_volume_of_one_node_go_where_it_is_mounted() -> None:
    template = manifests.job(run_of(), SETTINGS, ["shelf"])["spec"]["template"]
    (term,) = template["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    session = manifests.internal_session("shelf", SETTINGS, single_node=True)
    assert claim_label("shelf") in session["metadata"]["labels"]
    assert "affinity" in session["spec"]
    assert "affinity" not in pod_of(run_of())


def test_another_image_is_another_session() -> None:
    other = SETTINGS.model_copy(update={"image": "registry.example/slipway:2"})
    names = {
        manifests.internal_session("shelf", s, single_node=False)["metadata"]["name"]
        for s in (SETTINGS, other, SETTINGS)
    }
    assert len(names) == 2


def test_a_dollar_in_a_command_stays_a_dollar() -> None:
    assert pod_of(run_of(command=("sh", "-c", "echo $(date) $HOME")))["containers"][0]["command"][2] == (
        "echo $$(date) $HOME"
    )


def test_a_job_for_a_queue_is_made_suspended() -> None:
    made = manifests.job(run_of(queue="team"), SETTINGS)
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    (init,), (main,) = pod_of(run_of(queue="team"))["initContainers"], pod_of(run_of(queue="team"))["containers"]
    assert {"name": "SLIPWAY_QUEUE", "value": "team"} in init["env"]  # that it may be taken back and begin again
    assert "SLIPWAY_QUEUE" not in {variable["name"] for variable in main["env"]}


def test_a_patch_reaches_every_pod_and_merges_lists_by_name() -> None:
    patch = {
        "metadata": {"annotations": {"team": "a"}},
        "spec": {
            "hostNetwork": True,
            "containers": [{"name": "main", "env": [{"name": "HOME", "value": "/tmp"}]}, {"name": "sidecar"}],
        },
    }
    settings = SETTINGS.model_copy(update={"pod_patch": patch})
    template = manifests.job(run_of(), settings)["spec"]["template"]
    assert template["spec"]["hostNetwork"] is True
    assert [c["name"] for c in template["spec"]["containers"]] == ["main", "sidecar"]
    main = template["spec"]["containers"][0]
    assert main["image"] == "registry.example/trainer:2"
    assert [v for v in main["env"] if v["name"] == "HOME"] == [{"name": "HOME", "value": "/tmp"}]
    assert template["metadata"]["annotations"]["team"] == "a"
    assert manifests.internal_session("shelf", settings, single_node=False)["spec"]["hostNetwork"] is True


def test_a_patch_removes_what_is_null_or_marked() -> None:
    base = {"spec": {"a": 1, "volumes": [{"name": "x"}, {"name": "y"}]}}
    patch = {"spec": {"a": None, "volumes": [{"name": "x", "$patch": "delete"}]}}
    assert merge(base, patch) == {"spec": {"volumes": [{"name": "y"}]}}


@given(st.text(max_size=200))
def test_any_text_becomes_a_valid_label_value(raw: str) -> None:
    value = label_value(raw)
    assert len(value) <= 63
    assert LABEL.fullmatch(value)
    assert value == label_value(raw)


@given(st.lists(st.text(min_size=1, max_size=120), min_size=2, max_size=2, unique=True))
def test_different_texts_become_different_label_values(raw: list[str]) -> None:
    assert label_value(raw[0]) != label_value(raw[1])


@given(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True), st.text(max_size=100))
def test_every_name_in_a_manifest_is_one_that_kubernetes_takes(name: str, label: str) -> None:
    job = run_of(name=name, labels={"slipway.dev/run": label}, mounts=(Mount(volume=name),))
    made = manifests.job(job, SETTINGS, [name])
    session = manifests.internal_session(name, SETTINGS, single_node=True)
    for metadata in (made["metadata"], made["spec"]["template"]["metadata"], session["metadata"]):
        assert all(len(value) <= 63 and LABEL.fullmatch(value) for value in metadata["labels"].values())
        assert all(len(key.split("/")[-1]) <= 63 for key in metadata["labels"])
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", session["metadata"]["name"])
    assert json.loads(made["metadata"]["annotations"]["slipway.dev/labels"]) == {"slipway.dev/run": label}


@given(st.integers(min_value=1, max_value=10 * 2**40))
def test_a_size_survives_being_written_as_a_quantity(size: int) -> None:
    assert read_bytes(write_bytes(size)) == size


@pytest.mark.parametrize(
    ("text", "number"), [("500Gi", 500 * 2**30), ("1500m", 1.5), ("1e3", 1000), ("2T", 2 * 10**12), ("8", 8)]
)
def test_quantities_are_read_as_kubernetes_means_them(text: str, number: float) -> None:
    assert float(read_quantity(text)) == number

"""What only Kubernetes does to a job, produced for real on a cluster."""

import pytest

from blocks.clusters.errors import ConflictError, ProgramError, SlipwayError
from blocks.clusters.job import Cause, JobState, SecretRef
from blocks.clusters.kubernetes.place import Place
from tests.blocks.clusters.bench import GI, on_shelf
from tests.blocks.clusters.kubernetes.conftest import KubernetesBench

pytestmark = pytest.mark.cluster
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def test_out_of_memory_names_the_container_and_its_limit(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", "x = bytearray(2**30)", memory_bytes=GI // 8))
    ended = k8s.ended("one")
    assert ended.cause == Cause.OUT_OF_MEMORY
    assert "'main'" in ended.reason and "128Mi" in ended.reason


def test_an_image_that_can_not_be_pulled_is_waited_for_and_then_given_up_without_a_pod(k8s: KubernetesBench) -> None:
    patient = k8s.connect_with(image_grace_seconds=8)
    patient.cluster.jobs.submit(k8s.job("one", image="localhost:1/no/such:1"))
    waiting = patient.wait(lambda: s if "image" in (s := patient.status("one")).reason else None)
    assert (waiting.state, waiting.live) == (JobState.STARTING, True)
    ended = patient.ended("one")
    assert (ended.state, ended.cause) == (JobState.FAILED, Cause.START)
    assert "localhost:1/no/such:1" in ended.reason and "given up" in ended.reason
    pods = k8s.core("pods")
    k8s.wait(lambda: k8s.real.api.items(pods) == [], "the pod to be gone")
    assert k8s.status("one").reason == ended.reason


def test_a_malformed_image_name_fails_at_once(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", image="Not An Image"))
    ended = k8s.ended("one")
    assert (ended.cause, "InvalidImageName" in ended.reason) == (Cause.START, True)


def test_a_secret_without_the_key_is_said(k8s: KubernetesBench) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"other": "x"}}
    k8s.real.api.post(k8s.core("secrets"), secret)
    k8s.cluster.jobs.submit(k8s.job("one", secrets={"T": SecretRef(name="hub", key="token")}))
    waiting = k8s.wait(lambda: s if "secret" in (s := k8s.status("one")).reason else None)
    assert "token" in waiting.reason and "CreateContainerConfigError" in waiting.reason


def test_a_secret_reaches_the_program_and_no_manifest(k8s: KubernetesBench) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"token": "tell-nobody"}}
    k8s.real.api.post(k8s.core("secrets"), secret)
    code = "import os; print(os.environ['T'] == 'tell-' + 'nobody')"
    k8s.cluster.jobs.submit(k8s.job("one", code, secrets={"T": SecretRef(name="hub", key="token")}))
    assert k8s.ended("one").state == JobState.COMPLETED
    assert list(k8s.cluster.jobs.logs("one")) == ["True"]
    jobs = k8s.real.api.items(f"/apis/batch/v1/namespaces/{k8s.cluster.owner}/jobs")
    assert "tell-nobody" not in str(jobs)
    with pytest.raises(ProgramError) as refusal:
        k8s.cluster.call(None, "runs.dance", {}, secrets={"T": SecretRef(name="hub", key="token")})
    assert refusal.value.kind == "BadInputError"


def test_a_pod_that_is_deleted_under_us_is_a_lost_job(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP))
    k8s.until("one", JobState.RUNNING)
    k8s.real.api.delete(k8s.core("pods", k8s.pod_of("one")["metadata"]["name"]), grace_seconds=0)
    ended = k8s.ended("one")
    assert (ended.state, ended.cause) == (JobState.LOST, Cause.LOST)


def test_an_evicted_pod_is_an_evicted_job(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP))
    k8s.until("one", JobState.RUNNING)
    name = k8s.pod_of("one")["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    k8s.real.api.post(k8s.core("pods", name) + "/eviction", eviction)
    ended = k8s.ended("one")
    assert ended.cause == Cause.EVICTED
    assert ended.cause.infrastructure


@pytest.mark.alone
def test_a_preempted_job_was_evicted(k8s: KubernetesBench) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "test-high"}}
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    if k8s.real.api.find(f"{classes}/test-high") is None:
        k8s.real.api.post(classes, {**high, "value": 1000})
    k8s.cluster.jobs.submit(k8s.job("low", SLEEP, gpus=2))
    k8s.until("low", JobState.RUNNING)
    urgent = k8s.connect_with(priority_class="test-high")
    urgent.cluster.jobs.submit(k8s.job("high", "print('ran')", gpus=2))
    assert k8s.ended("low").cause == Cause.EVICTED
    assert "preempted" in k8s.status("low").reason
    assert urgent.ended("high").state == JobState.COMPLETED


def test_quota_keeps_a_job_waiting_with_the_servers_words_and_lets_it_run_later(k8s: KubernetesBench) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}}
    k8s.real.api.post(k8s.core("resourcequotas"), {**quota, "spec": {"hard": {"pods": "0"}}})
    path = k8s.core("resourcequotas", "team")
    k8s.wait(lambda: (k8s.real.api.get(path).get("status") or {}).get("hard"), "the quota to be counted")
    k8s.cluster.jobs.submit(k8s.job("one", "print('ran')"))
    waiting = k8s.wait(lambda: s if "quota" in (s := k8s.status("one")).reason else None)
    assert waiting.state == JobState.QUEUED
    assert "exceeded quota: team" in waiting.reason
    assert k8s.cluster.jobs.stop("one").state == JobState.STOPPED


STUBBORN = (
    "import signal, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: print('told to end', flush=True))\n"
    "print('up', flush=True)\n"
    "while True: time.sleep(1)"
)


def orphaned(k8s: KubernetesBench) -> None:
    """`kubectl delete job one --cascade=orphan`"""
    job = f"{Place(k8s.cluster.owner).job('one')}?propagationPolicy=Orphan"
    k8s.real.api._json("DELETE", job)
    k8s.wait(lambda: k8s.real.api.find(Place(k8s.cluster.owner).job("one")) is None, "the Job to go")


@pytest.mark.parametrize("way", ["with its pods", "without them"])
def test_a_job_deleted_under_us_is_gone_once_its_program_has_ended(k8s: KubernetesBench, way: str) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", STUBBORN, labels={"team": "a b"}))
    k8s.wait(lambda: list(k8s.cluster.jobs.logs("one")) == ["up"], "it to begin")
    before = k8s.status("one")
    if way == "with its pods":
        k8s.real.api.delete(Place(k8s.cluster.owner).job("one"))
    else:
        orphaned(k8s)
    left = k8s.status("one")
    assert (left.state, "Job was deleted" in left.reason, left.labels) == (JobState.RUNNING, True, before.labels)
    assert [found.name for found in k8s.cluster.jobs.find({"team": "a b"})] == ["one"]
    k8s.wait(lambda: list(k8s.cluster.jobs.logs("one")) == ["up", "told to end"], "it to be told")
    again = k8s.cluster.jobs.submit(k8s.job("one", SLEEP))
    assert again.uid != before.uid
    pod = k8s.pod_of("one")
    running = [p for p in k8s.real.api.items(k8s.core("pods")) if p["status"]["phase"] == "Running"]
    assert {p["metadata"]["uid"] for p in running} <= {pod["metadata"]["uid"]}, "never two at a time"


def test_what_a_deleted_job_left_can_be_stopped(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", STUBBORN))
    k8s.wait(lambda: list(k8s.cluster.jobs.logs("one")) == ["up"], "it to begin")
    orphaned(k8s)
    assert k8s.cluster.jobs.stop("one", grace_seconds=0).state == JobState.STOPPED
    assert k8s.cluster.jobs.status(["one"]) == {}
    k8s.wait(lambda: k8s.real.api.items(k8s.core("pods")) == [], "its pod to go")


def test_a_strangers_job_of_that_name_is_left_alone(k8s: KubernetesBench) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "x", "image": k8s.kubernetes.image}]}
    stranger = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}}
    jobs = f"/apis/batch/v1/namespaces/{k8s.cluster.owner}/jobs"
    k8s.real.api.post(jobs, {**stranger, "spec": {"suspend": True, "template": {"spec": pod}}})
    with pytest.raises(ConflictError, match="not Slipway's"):
        k8s.cluster.jobs.submit(k8s.job("one"))
    assert k8s.cluster.jobs.status(["one"]) == {}


def test_a_service_of_that_name_is_no_way_for_several_nodes_to_meet(k8s: KubernetesBench) -> None:
    service = {"metadata": {"name": "one"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    k8s.real.api.post(k8s.core("services"), service)
    with pytest.raises(ConflictError, match=r"Service 'one'.*delete service one"):
        k8s.connect_with(jobset="never").cluster.jobs.submit(k8s.job("one", nodes=2))
    assert k8s.cluster.jobs.status(["one"]) == {}


def test_a_pod_has_no_account_of_the_cluster_and_no_rights_of_root(k8s: KubernetesBench) -> None:
    code = "import os; print(os.getuid(), os.path.exists('/var/run/secrets/kubernetes.io'), os.getpid() > 1)"
    k8s.cluster.jobs.submit(k8s.job("one", code))
    assert k8s.ended("one").state == JobState.COMPLETED
    assert list(k8s.cluster.jobs.logs("one")) == ["1000 False True"]


def test_a_run_can_not_write_outside_its_own_directory(k8s: KubernetesBench) -> None:
    k8s.volume()
    mounts = (
        on_shelf(read_only=True),
        on_shelf(sub_path="runs/a", mount_path="/volume/runs/a"),
    )
    code = (
        "open('/volume/runs/a/x', 'w').write('x')\n"
        "try: open('/volume/y', 'w')\nexcept OSError as error: print(error.strerror)"
    )
    k8s.cluster.jobs.submit(k8s.job("one", code, mounts=mounts))
    assert k8s.ended("one").state == JobState.COMPLETED
    assert list(k8s.cluster.jobs.logs("one")) == ["Read-only file system"]


def test_a_session_that_is_killed_is_opened_again_and_the_call_is_answered(k8s: KubernetesBench) -> None:
    k8s.volume()
    assert k8s.cluster.call("shelf", "runs.list", {})["runs"] == []
    (session,) = k8s.cluster.sessions.list()
    assert session.internal
    k8s.real.api.delete(k8s.core("pods", session.id), grace_seconds=0)
    assert k8s.cluster.call("shelf", "runs.list", {})["runs"] == []


def test_a_namespace_that_is_not_there_is_said(k8s: KubernetesBench) -> None:
    nowhere = k8s.kubernetes.connect("no-such-namespace")
    with pytest.raises(SlipwayError, match="no-such-namespace"):
        nowhere.jobs.submit(k8s.job("one"))


def test_a_queue_that_takes_it_back_after_it_began_makes_a_new_attempt_possible(k8s: KubernetesBench) -> None:
    """Its init command says, by its exit code, that it has begun before."""
    k8s.volume()
    begin = "mkdir /volume/begun || exit 75"
    job = k8s.job("one", SLEEP, queue="team", init_command=("sh", "-c", begin), mounts=(on_shelf(),))
    k8s.cluster.jobs.submit(job)
    k8s.suspend("one", False)
    k8s.until("one", JobState.RUNNING)
    k8s.suspend("one", True)
    k8s.until("one", JobState.QUEUED)
    k8s.suspend("one", False)
    ended = k8s.ended("one")
    assert (ended.cause, "taken back" in ended.reason) == (Cause.EVICTED, True)

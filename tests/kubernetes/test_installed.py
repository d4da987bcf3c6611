"""The operator's page on an empty cluster, in namespaces of its own: the server, the worker and flows are pods."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks.clusters.job import JobState, JobStatus
from deployments.server import free_port
from tasks.runs.launch import read_run
from tests.cluster.access import TestCluster, flows_image, kubectl_of, owner_of_its_own
from tests.cluster.accounts import rights, rules, used
from tests.kubernetes.installed import MANIFESTS, Installed
from tests.kubernetes.spread import argv_of_all, found_in_objects
from tests.kubernetes.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]
TOKEN = f"hf_{secrets.token_hex(16)}"
NO_POSTGRES = [
    {"patch": json.dumps({"$patch": "delete", "apiVersion": version, "kind": kind, "metadata": {"name": "postgres"}})}
    for version, kind in (("apps/v1", "StatefulSet"), ("v1", "Service"))
]


@pytest.fixture
def installed(kubernetes: TestCluster, tmp_path: Path) -> Iterator[Installed]:
    """An installation whose Prefect server keeps its database in a file."""
    image = flows_image(kubernetes)
    with owner_of_its_own(kubernetes) as home, owner_of_its_own(kubernetes) as owner:
        made = Installed(kubernetes, home, owner, tmp_path, image, free_port(0))
        made.kubectl("-n", home, "create", "secret", "generic", "prefect-database", "--from-literal=password=none",
                     "--from-literal=url=sqlite+aiosqlite:////home/slipway/prefect.db")  # fmt: skip
        made.apply("server", *NO_POSTGRES, namespace=home)
        made.apply("owner", _bound_to_accounts_of(home, "slipway-flows"), namespace=owner)
        made.apply("hub", namespace=home)
        made.rolled_out("prefect")
        argv = [*kubectl_of(kubernetes), "-n", home, "port-forward", "service/prefect", f"{made.port}:4200"]
        forward = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        try:
            made.await_server()
            assert "<script" in made.page()
            yield made
        finally:
            forward.kill()
            forward.wait()


def _bound_to_accounts_of(home: str, binding: str) -> dict[str, object]:
    """A role is bound to an account of that namespace."""
    there = {"op": "replace", "path": "/subjects/0/namespace", "value": home}
    return {"target": {"kind": "RoleBinding", "name": binding}, "patch": json.dumps([there])}


def _names_its_home(home: str) -> dict[str, object]:
    """The worker watches flow runs' pods where it is."""
    name = "PREFECT_INTEGRATIONS_KUBERNETES_OBSERVER_NAMESPACES"
    container = {"name": "worker", "env": [{"name": name, "value": home}]}
    spec = {"template": {"spec": {"containers": [container]}}}
    worker = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "slipway-worker"}, "spec": spec}
    return {"patch": json.dumps(worker)}


@pytest.fixture
def working(installed: Installed, kubernetes: TestCluster) -> Installed:
    """One with a worker, the deployments, and a Hub."""
    home, owner = installed.home, installed.owner
    installed.kubectl("-n", owner, "create", "secret", "generic", "hub", f"--from-literal=token={TOKEN}")
    installed.settings(storage_class=kubernetes.storage_class, access_mode="ReadWriteOnce", poll_seconds=1)
    template = MANIFESTS / "worker" / "flow-run.json"
    installed.run("prefect", "work-pool", "create", "kubernetes", "--type", "kubernetes",
                  "--base-job-template", str(template))  # fmt: skip
    installed.apply("worker", _names_its_home(home), _bound_to_accounts_of(home, "slipway-worker"), namespace=home)
    installed.run("flows.cli.app", "register")
    made = installed.run("deployments.kubernetes.deployments", "--image", installed.flows_image, "--namespace", home)
    (installed.folder / "kubernetes.yaml").write_text(made)
    installed.run("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "kubernetes.yaml")
    installed.run("flows.cli.app", "register")
    installed.rolled_out("slipway-worker")
    installed.rolled_out("demo-hub")
    return installed


def test_the_pipeline_runs_inside_the_cluster_by_the_shipped_manifests(
    working: Installed, kubernetes: TestCluster
) -> None:
    with argv_of_all() as argv:
        asked = working.start("pipeline/kubernetes", name="first")
        assert working.ended(asked, 480) == "COMPLETED"

    cluster = kubernetes.connect(working.owner)
    child = read_run(cluster, "research", "first-fork")
    assert child.last and child.last.resume.kind == "hold" and child.last.resume.step == 60
    assert not [words for words in argv if TOKEN in words]
    assert found_in_objects(cluster, TOKEN) == found_in_objects(kubernetes.connect(working.home), TOKEN) == []
    look = ["exec", "deployment/prefect", "--", "sh", "-c", f"cat /home/slipway/prefect.db* | grep -c {TOKEN}"]
    assert working.kubectl("-n", working.home, *look, fails=True).strip() == "0"
    if kubernetes.ours:
        _each_right_of_the_worker_is_used(kubernetes, working)


def test_what_becomes_of_a_run_whose_flow_run_in_the_cluster_is_cancelled_killed_or_retried(
    working: Installed, kubernetes: TestCluster
) -> None:
    cluster = kubernetes.connect(working.owner)
    slow = {"set": {"max_steps": 60, "pace.step_seconds": 4.0}}

    def job_of(run: str) -> JobStatus:
        (job,) = cluster.jobs.find({"slipway.dev/run": run})
        return job

    def trains(run: str) -> bool:
        found = cluster.jobs.find({"slipway.dev/run": run})
        return bool(found) and found[0].state is JobState.RUNNING

    cancelled = working.start("finetune/kubernetes", name="cancelled", **slow)
    wait_until(lambda: trains("cancelled"), 400)
    working.run("prefect", "flow-run", "cancel", cancelled)
    assert working.state_of(cancelled, 180) == "CANCELLED"
    assert job_of("cancelled").state is JobState.STOPPED
    last = read_run(cluster, "research", "cancelled").last
    end = last and last.end
    assert end and (end.state, "cancelled in Prefect" in end.reason) == ("stopped", True)

    killed = working.start("finetune/kubernetes", name="killed", **slow)
    wait_until(lambda: trains("killed"), 300)
    (pod,) = working.pods_of(killed)
    working.kubectl("-n", working.home, "exec", pod, "--", "sh", "-c", "kill -9 -1", fails=True)
    assert working.state_of(killed, 180) == "CRASHED"
    assert job_of("killed").live  # killing a flow stops nothing
    working.run("prefect", "flow-run", "retry", killed)
    wait_until(lambda: len(working.pods_of(killed)) == 2, 120)
    wait_until(lambda: working.state_of(killed, 0) == "RUNNING", 180)
    working.kubectl("-n", working.home, "delete", working.pods_of(killed)[-1])  # as a drain of its node does
    assert working.ended(killed, 500) == "COMPLETED"  # Prefect has scheduled it again
    record = read_run(cluster, "research", "killed")
    assert record.last and record.last.attempt == 1 and record.last.end and record.last.end.state == "completed"
    assert job_of("killed").state is JobState.COMPLETED  # and it is the only one


def _each_right_of_the_worker_is_used(kubernetes: TestCluster, installed: Installed) -> None:
    given = rights(rules("worker/accounts.yaml", "slipway-worker"))
    taken = used(kubernetes, f"system:serviceaccount:{installed.home}:slipway-worker")
    unseen = {("batch", "jobs", "get"), ("batch", "jobs", "delete"), ("", "pods/log", "get")}  # for bad ends
    assert given - taken == unseen

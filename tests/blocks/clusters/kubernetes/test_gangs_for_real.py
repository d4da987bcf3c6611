"""Jobs of several nodes on a real API server: two pods of one Indexed Job, on the one node there is."""

import pytest

from blocks.clusters.errors import UsageError
from blocks.clusters.job import Cause, JobState
from tests.blocks.clusters.bench import on_shelf
from tests.blocks.clusters.kubernetes.conftest import KubernetesBench

pytestmark = pytest.mark.cluster
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def pods(k8s: KubernetesBench) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in k8s.real.api.items(k8s.core("pods")))


def pod_of_node(k8s: KubernetesBench, node: int) -> str:
    (name,) = [name for name in pods(k8s) if name.startswith(f"one-{node}-")]
    return name


def test_each_node_knows_its_number_and_where_the_first_one_is(k8s: KubernetesBench) -> None:
    code = (
        "import os, socket\n"
        "print(*(os.environ[k] for k in ('NODE_RANK', 'PET_NODE_RANK', 'PET_NNODES', 'PET_NPROC_PER_NODE', "
        "'MASTER_ADDR', 'MASTER_PORT', 'PET_MASTER_ADDR')), socket.gethostname())"
    )
    k8s.cluster.jobs.submit(k8s.job("one", code, nodes=2, init_command=("true",)))
    assert k8s.ended("one").state == JobState.COMPLETED
    assert list(k8s.cluster.jobs.logs("one")) == [
        "0 0 2 1 one-0.one 29500 one-0.one one-0",
        "[node 1] 1 1 2 1 one-0.one 29500 one-0.one one-1",
    ]


def test_the_nodes_find_each_other_by_a_service_that_goes_with_their_job(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))
    k8s.until("one", JobState.RUNNING)
    service = k8s.real.api.get(k8s.core("services", "one"))
    assert service["spec"]["clusterIP"] == "None"
    endpoints = k8s.core("endpoints", "one")
    found = k8s.wait(lambda: (k8s.real.api.find(endpoints) or {}).get("subsets"), "the service to know its pods")
    assert sorted(address["hostname"] for address in found[0]["addresses"]) == ["one-0", "one-1"]
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))  # adopted, with what is there
    k8s.cluster.jobs.stop("one", grace_seconds=0)
    k8s.cluster.jobs.delete("one")
    k8s.wait(lambda: k8s.real.api.find(k8s.core("services", "one")) is None, "the service to go")


def test_the_nodes_meet_by_name(k8s: KubernetesBench) -> None:
    """As torch's rendezvous does: the first one listens, and the others connect to it by its name."""
    code = (
        "import os, socket, time\n"
        "place = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
        "if os.environ['NODE_RANK'] == '0':\n"
        "    way, _ = socket.create_server(('', place[1])).accept()\n"
        "    print('heard', way.recv(99).decode())\n"
        "    raise SystemExit\n"
        "while True:\n"
        "    try:\n"
        "        socket.create_connection(place, 5).sendall(socket.getfqdn().encode())\n"
        "        raise SystemExit\n"
        "    except OSError:\n"
        "        time.sleep(0.2)"
    )
    k8s.cluster.jobs.submit(k8s.job("one", code, nodes=2, deadline_seconds=120))
    assert k8s.ended("one").state == JobState.COMPLETED
    owner = k8s.cluster.owner
    assert list(k8s.cluster.jobs.logs("one")) == [f"heard one-1.one.{owner}.svc.cluster.local"]


def test_one_that_fails_ends_all_and_is_named(k8s: KubernetesBench) -> None:
    code = (
        "import os, sys, time\n"
        "if os.environ['NODE_RANK'] == '1': time.sleep(3); print('last words', file=sys.stderr); sys.exit(5)\n"
        "time.sleep(600)"
    )
    k8s.cluster.jobs.submit(k8s.job("one", code, nodes=2))
    ended = k8s.ended("one")
    assert (ended.state, ended.cause, ended.exit_code) == (JobState.FAILED, Cause.EXIT, 5)
    assert "Node 1 of 2" in ended.reason
    assert ended.last_lines == ("last words",)
    live = [p for p in k8s.real.api.items(k8s.core("pods")) if p["status"]["phase"] == "Running"]
    assert live == []  # before the next attempt may begin


def test_one_that_is_lost_ends_the_attempt_for_all(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))
    k8s.until("one", JobState.RUNNING)
    k8s.real.api.delete(k8s.core("pods", pod_of_node(k8s, 1)), grace_seconds=0)
    ended = k8s.ended("one")
    assert ended.cause and ended.cause.infrastructure, ended
    k8s.wait(lambda: not [p for p in k8s.real.api.items(k8s.core("pods")) if p["status"]["phase"] == "Running"])
    assert k8s.status("one").cause == ended.cause


def test_one_that_is_evicted_ends_the_attempt_for_all(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))
    k8s.until("one", JobState.RUNNING)
    name = pod_of_node(k8s, 0)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    k8s.real.api.post(k8s.core("pods", name) + "/eviction", eviction)
    ended = k8s.ended("one")
    assert ended.cause and ended.cause.infrastructure, ended


@pytest.mark.alone
def test_it_runs_only_once_all_of_its_nodes_do(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("holder", SLEEP, gpus=1))
    k8s.until("holder", JobState.RUNNING)
    roomy = k8s.connect_with(autoscales=True)
    roomy.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2, gpus=1))
    waiting = k8s.wait(lambda: s if "GPUs" in (s := roomy.status("one")).reason else None, "it to wait for GPUs")
    assert waiting.state == JobState.QUEUED and " of 2: waits for GPUs" in waiting.reason
    assert roomy.cluster.jobs.stop("one").state == JobState.STOPPED
    k8s.wait(lambda: pods(k8s) and all(name.startswith("holder") for name in pods(k8s)), "its pods to go")


def test_stopping_it_stops_all_and_keeps_their_logs(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))
    k8s.until("one", JobState.RUNNING)
    assert k8s.cluster.jobs.stop("one").state == JobState.STOPPED
    assert sorted(k8s.cluster.jobs.logs("one")) == ["[node 1] up", "up"]


def test_what_one_node_can_mount_is_no_volume_for_several(k8s: KubernetesBench) -> None:
    k8s.volume()
    with pytest.raises(UsageError, match=r"only one at a time can mount shelf \(ReadWriteOnce\)"):
        k8s.cluster.jobs.submit(k8s.job("one", nodes=2, mounts=(on_shelf(),)))
    (found,) = k8s.cluster.preflight(k8s.job("one", nodes=2, mounts=(on_shelf(),)), {})
    assert found.level == "blocked"


def test_a_queue_that_takes_it_back_after_it_began_makes_a_new_attempt_possible(k8s: KubernetesBench) -> None:
    """Its init command says, by its exit code, that it has begun before."""
    k8s.volume()
    begin = "mkdir /volume/begun || exit 75"
    job = k8s.job("one", SLEEP, queue="team", init_command=("sh", "-c", begin), mounts=(on_shelf(),))
    k8s.cluster.jobs.submit(job)
    path = f"/apis/batch/v1/namespaces/{k8s.cluster.owner}/jobs/one"
    k8s.real.api.patch(path, {"spec": {"suspend": False}})
    k8s.until("one", JobState.RUNNING)
    k8s.real.api.patch(path, {"spec": {"suspend": True}})
    k8s.until("one", JobState.QUEUED)
    k8s.real.api.patch(path, {"spec": {"suspend": False}})
    ended = k8s.ended("one")
    assert (ended.cause, "taken back" in ended.reason) == (Cause.EVICTED, True)

"""Jobs of several nodes on a real API server: two pods of one Indexed Job, on the one node there is, each claim once
with a Job that we make and once with one that JobSet's controller makes."""

from typing import Any

import pytest

from blocks.clusters.errors import ConflictError, UsageError
from blocks.clusters.job import Cause, JobState
from blocks.clusters.kubernetes.jobset import API_VERSION, child_name
from blocks.clusters.kubernetes.place import Place
from tests.blocks.clusters.bench import on_shelf
from tests.blocks.clusters.kubernetes.conftest import KubernetesBench
from tests.cluster.access import jobset_controller_away, jobset_taken_away

pytestmark = pytest.mark.cluster
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, lambda *_: None); print('up', flush=True); time.sleep(600)"
)
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture(params=["job", pytest.param("jobset", marks=pytest.mark.alone)])
def k8s(request: pytest.FixtureRequest, k8s: KubernetesBench) -> KubernetesBench:
    jobset = request.param == "jobset"
    if jobset:
        request.getfixturevalue("jobset")
    chosen = k8s.connect_with(jobset="always" if jobset else "never")
    chosen.jobset = jobset
    return chosen


def made(k8s: KubernetesBench) -> str:
    """The name of the Job of `one`, which the host names of its pods begin with."""
    return child_name("one") if k8s.jobset else "one"


def live_pods(k8s: KubernetesBench) -> list[Any]:
    return [pod for pod in k8s.real.api.items(k8s.core("pods")) if pod["status"]["phase"] == "Running"]


def pods(k8s: KubernetesBench) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in k8s.real.api.items(k8s.core("pods")))


def pod_of_node(k8s: KubernetesBench, node: int) -> str:
    (name,) = [name for name in pods(k8s) if name.startswith(f"{made(k8s)}-{node}-")]
    return name


def stays_ended(k8s: KubernetesBench) -> None:
    """Also when a queue starts what it has admitted, as Kueue does with every such job that it finds suspended."""
    said, counted = k8s.status("one"), job_status(k8s).get("failed", 0)
    k8s.suspend("one", False)
    failed = k8s.wait(lambda: [c for c in job_status(k8s)["conditions"] if c["type"] == "Failed"], "its Job to fail")
    # its limit of failures comes first where pods that went with it have been counted as such
    assert failed[0]["reason"] == ("BackoffLimitExceeded" if counted else "DeadlineExceeded"), failed
    assert (pods(k8s), job_status(k8s).get("failed", 0)) == ([], counted), "there was no pod"
    assert k8s.status("one").state == said.state


def job_status(k8s: KubernetesBench) -> Any:
    return k8s.real.api.get(Place(k8s.cluster.owner).job(made(k8s)))["status"]


def test_each_node_knows_its_number_and_where_the_first_one_is(k8s: KubernetesBench) -> None:
    code = (
        "import os, socket\n"
        "print(*(os.environ[k] for k in ('NODE_RANK', 'PET_NODE_RANK', 'PET_NNODES', 'PET_NPROC_PER_NODE', "
        "'MASTER_ADDR', 'MASTER_PORT', 'PET_MASTER_ADDR')), socket.gethostname())"
    )
    first = f"{made(k8s)}-0.one"
    k8s.cluster.jobs.submit(k8s.job("one", code, nodes=2, init_command=("true",)))
    assert k8s.ended("one").state == JobState.COMPLETED
    assert list(k8s.cluster.jobs.logs("one")) == [
        f"0 0 2 1 {first} 29500 {first} {made(k8s)}-0",
        f"[node 1] 1 1 2 1 {first} 29500 {first} {made(k8s)}-1",
    ]


def test_the_nodes_find_each_other_by_a_service_that_goes_with_their_job(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))
    k8s.until("one", JobState.RUNNING)
    service = k8s.real.api.get(k8s.core("services", "one"))
    assert service["spec"]["clusterIP"] == "None"
    endpoints = k8s.core("endpoints", "one")
    found = k8s.wait(lambda: (k8s.real.api.find(endpoints) or {}).get("subsets"), "the service to know its pods")
    assert sorted(address["hostname"] for address in found[0]["addresses"]) == [f"{made(k8s)}-0", f"{made(k8s)}-1"]
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
    k8s.cluster.jobs.submit(k8s.job("one", code, nodes=2, deadline_seconds=400))
    assert k8s.ended("one").state == JobState.COMPLETED
    owner = k8s.cluster.owner
    assert list(k8s.cluster.jobs.logs("one")) == [f"heard {made(k8s)}-1.one.{owner}.svc.cluster.local"]


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
    assert live_pods(k8s) == []  # before the next attempt may begin


def test_one_that_is_lost_ends_the_attempt_for_all(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))
    k8s.until("one", JobState.RUNNING)
    k8s.real.api.delete(k8s.core("pods", pod_of_node(k8s, 1)), grace_seconds=0)
    ended = k8s.ended("one")
    assert ended.cause and ended.cause.infrastructure, ended
    k8s.wait(lambda: not live_pods(k8s))
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
    roomy = k8s.connect_with(autoscales=True, jobset="always" if k8s.jobset else "never")
    roomy.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2, gpus=1))
    waiting = k8s.wait(lambda: s if "GPUs" in (s := roomy.status("one")).reason else None, "it to wait for GPUs")
    assert waiting.state == JobState.QUEUED and " of 2: waits for GPUs" in waiting.reason
    assert roomy.cluster.jobs.stop("one").state == JobState.STOPPED
    k8s.wait(lambda: pods(k8s) and all(name.startswith("holder") for name in pods(k8s)), "its pods to go")


def test_stopping_it_stops_all_and_keeps_their_logs(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))
    k8s.wait(lambda: len(list(k8s.cluster.jobs.logs("one"))) == 2, "both to begin")
    assert k8s.cluster.jobs.stop("one").state == JobState.STOPPED
    assert sorted(k8s.cluster.jobs.logs("one")) == ["[node 1] up", "up"]


def test_what_one_node_can_mount_is_no_volume_for_several(k8s: KubernetesBench) -> None:
    k8s.volume()
    with pytest.raises(UsageError, match=r"only one at a time can mount shelf \(ReadWriteOnce\)"):
        k8s.cluster.jobs.submit(k8s.job("one", nodes=2, mounts=(on_shelf(),)))
    (found,) = k8s.cluster.preflight(k8s.job("one", nodes=2, mounts=(on_shelf(),)), {})
    assert found.level == "blocked"


def test_a_queue_holds_all_of_it_back_and_may_take_it_back(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2, queue="team"))
    k8s.wait(lambda: k8s.status("one").reason == "waits in the queue team", "it to be in its queue")
    assert (k8s.real.api.get(k8s.object_of("one"))["metadata"]["labels"])["kueue.x-k8s.io/queue-name"] == "team"
    assert pods(k8s) == []
    for _ in range(2):
        k8s.suspend("one", False)
        k8s.until("one", JobState.RUNNING)
        k8s.suspend("one", True)
        k8s.until("one", JobState.QUEUED)
        k8s.wait(lambda: pods(k8s) == [], "its pods to go")
    assert k8s.cluster.jobs.stop("one").state == JobState.STOPPED
    stays_ended(k8s)


def test_a_killed_submitters_gang_is_adopted_and_another_request_refused(k8s: KubernetesBench) -> None:
    asked = "cluster.jobs.submit(Job(name='one', request_hash='asked', command=('sleep', '600'), cpus=0.1, nodes=2))"
    submitter = k8s.elsewhere(f"{asked}\nprint('asked', flush=True)\nsys.stdin.read()")
    assert submitter.stdout and submitter.stdout.readline() == "asked\n"
    submitter.kill()
    submitter.wait()
    before = k8s.until("one", JobState.RUNNING)
    adopted = k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))
    assert (adopted.uid, adopted.live) == (before.uid, True)
    assert [status.uid for status in k8s.cluster.jobs.find({})] == [before.uid]
    assert before.uid == k8s.real.api.get(k8s.object_of("one"))["metadata"]["uid"]
    assert len(pods(k8s)) == 2
    with pytest.raises(ConflictError, match="asked for differently"):
        k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2, request_hash="other"))


def test_several_that_submit_it_at_once_make_it_once(k8s: KubernetesBench) -> None:
    code = (
        "sys.stdin.readline()\n"
        "job = Job(name='one', request_hash='asked', command=('sleep', '600'), cpus=0.1, nodes=2)\n"
        "print(cluster.jobs.submit(job).uid)"
    )
    submitters = [k8s.elsewhere(f"print('ready', flush=True)\n{code}") for _ in range(3)]
    assert [submitter.stdout.readline() for submitter in submitters if submitter.stdout] == ["ready\n"] * 3
    for submitter in submitters:
        assert submitter.stdin
        submitter.stdin.write("go\n")
        submitter.stdin.flush()
    said = {submitter.communicate(timeout=600)[0] for submitter in submitters}
    assert said == {f"{k8s.until('one', JobState.RUNNING).uid}\n"}
    assert len(pods(k8s)) == 2


@pytest.mark.parametrize("name", ["n" * 56, "1" + "-n" * 20])
def test_names_that_leave_no_room_for_those_of_pods_are_no_trouble(k8s: KubernetesBench, name: str) -> None:
    k8s.cluster.jobs.submit(k8s.job(name, "print('hello')", nodes=2))
    ended = k8s.ended(name)
    assert (ended.name, ended.state) == (name, JobState.COMPLETED), ended
    assert list(k8s.cluster.jobs.logs(name)) == ["hello", "[node 1] hello"]
    k8s.cluster.jobs.delete(name)
    assert k8s.cluster.jobs.find({}) == []
    place = Place(k8s.cluster.owner)
    for kind in (place.jobs(), place.pods(), place.services(), *([place.jobsets()] if k8s.jobset else [])):
        k8s.wait(lambda kind=kind: k8s.real.api.items(kind) == [], f"what it made to go: {kind}")


def test_what_is_given_up_holds_nothing(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", nodes=2, image="Not An Image"))
    ended = k8s.ended("one")
    assert (ended.state, ended.cause) == (JobState.FAILED, Cause.START), ended
    k8s.wait(lambda: pods(k8s) == [], "its pods to go")
    stays_ended(k8s)
    assert k8s.status("one").reason == ended.reason


def test_a_plan_asks_for_what_would_be_made_and_makes_nothing(k8s: KubernetesBench) -> None:
    assert k8s.cluster.preflight(k8s.job("one", nodes=2), {}) == []
    assert (k8s.cluster.jobs.find({}), pods(k8s)) == ([], [])
    quota = {"hard": {"count/jobsets.jobset.x-k8s.io" if k8s.jobset else "count/jobs.batch": "0"}}
    k8s.real.api.post(k8s.core("resourcequotas"), {"metadata": {"name": "team"}, "spec": quota})
    path = k8s.core("resourcequotas", "team")
    k8s.wait(lambda: (k8s.real.api.get(path).get("status") or {}).get("hard"), "the quota to be counted")
    (found,) = k8s.cluster.preflight(k8s.job("one", nodes=2), {})
    assert (found.subject, found.level) == ("quota", "blocked"), found


@pytest.fixture
def jobsets(request: pytest.FixtureRequest, k8s: KubernetesBench) -> KubernetesBench:
    """Jobs of several nodes that are JobSets."""
    if not k8s.jobset:
        pytest.skip("of JobSets only")
    return k8s


def test_a_jobset_of_that_name_is_left_alone(jobsets: KubernetesBench) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "x", "image": jobsets.kubernetes.image}]}
    groups = [{"name": name, "template": {"spec": {"template": {"spec": pod}}}} for name in ("a", "b")]
    theirs = {"apiVersion": API_VERSION, "kind": "JobSet", "metadata": {"name": "one"}}
    jobsets.real.api.post(
        Place(jobsets.cluster.owner).jobsets(), {**theirs, "spec": {"suspend": True, "replicatedJobs": groups}}
    )
    with pytest.raises(ConflictError, match="JobSet that is not Slipway's"):
        jobsets.cluster.jobs.submit(jobsets.job("one", nodes=2))
    assert jobsets.cluster.jobs.status(["one"]) == {}
    jobsets.cluster.jobs.delete("one")
    assert jobsets.real.api.find(jobsets.object_of("one")) is not None


def test_a_job_of_the_name_that_jobset_gives_is_found_before_it_waits_for_ever(jobsets: KubernetesBench) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "x", "image": jobsets.kubernetes.image}]}
    theirs = {"metadata": {"name": child_name("one")}, "spec": {"suspend": True, "template": {"spec": pod}}}
    jobsets.real.api.post(Place(jobsets.cluster.owner).jobs(), theirs)
    with pytest.raises(ConflictError, match="the one that JobSet makes"):
        jobsets.cluster.jobs.submit(jobsets.job("one", nodes=2))


def test_what_a_deleted_one_left_is_over_before_it_is_begun_again(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", STUBBORN, nodes=2))
    k8s.wait(lambda: len(list(k8s.cluster.jobs.logs("one"))) == 2, "both to begin")
    k8s.real.api._json("DELETE", k8s.object_of("one"), {"propagationPolicy": "Orphan"})
    assert k8s.status("one").live
    left = {pod["metadata"]["uid"] for pod in live_pods(k8s)}
    assert len(left) == 2
    k8s.wait(lambda: k8s.real.api.find(k8s.object_of("one")) is None, "it to go")
    k8s.real.api.delete(k8s.core("services", "one"))  # let go of as well, and not to be told from another's
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP, nodes=2))
    assert not left & {pod["metadata"]["uid"] for pod in live_pods(k8s)}


def test_jobset_that_is_away_keeps_nothing_from_being_looked_at_or_stopped(jobsets: KubernetesBench) -> None:
    """Its webhook is away with its controller: no JobSet can be changed."""
    if not jobsets.kubernetes.ours:
        pytest.skip("JobSet's controller on a cluster that was named is not ours to stop")
    jobsets.cluster.jobs.submit(jobsets.job("one", SLEEP, nodes=2))
    jobsets.cluster.jobs.submit(jobsets.job("other", SLEEP, nodes=2))
    jobsets.until("one", JobState.RUNNING)
    jobsets.until("other", JobState.RUNNING)
    with jobset_controller_away(jobsets.kubernetes):
        jobsets.real.api.delete(jobsets.core("pods", pod_of_node(jobsets, 1)), grace_seconds=0)
        assert jobsets.ended("one").cause == Cause.LOST
        stopped = jobsets.cluster.jobs.stop("other")
        assert stopped.state == JobState.STOPPED
    assert jobsets.status("other").state == JobState.STOPPED
    jobsets.wait(lambda: live_pods(jobsets) == [], "their pods to end")


def test_a_cluster_that_jobset_is_taken_from_lets_go_of_its_jobs_and_begins_no_other_beside_them(
    jobsets: KubernetesBench,
) -> None:
    if not jobsets.kubernetes.ours:
        pytest.skip("JobSet on a cluster that was named is not ours to take away")
    jobsets.cluster.jobs.submit(jobsets.job("one", STUBBORN, nodes=2))
    jobsets.wait(lambda: len(list(jobsets.cluster.jobs.logs("one"))) == 2, "both to begin")
    without = jobsets.connect_with(jobset="auto")
    left = {pod["metadata"]["uid"] for pod in live_pods(jobsets)}
    with jobset_taken_away(jobsets.kubernetes):
        assert without.status("one").state == JobState.RUNNING
        again = without.cluster.jobs.submit(jobsets.job("one", SLEEP, nodes=2))
        assert again.live and not left & {pod["metadata"]["uid"] for pod in live_pods(jobsets)}
        without.until("one", JobState.RUNNING)
        assert sorted(pods(jobsets))[0].startswith("one-0-"), "a plain Job"

"""What Kueue's own controller does with our jobs, and what we make of it. Skipped where it was not built."""

from collections.abc import Iterator
from typing import Any

import pytest

from blocks.clusters.job import Cause, Job, JobState
from tests.blocks.clusters.kubernetes.conftest import KubernetesBench
from tests.cluster.accounts import connect_as, make_account, rules
from tests.cluster.queues import Queues, queues_of

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.usefixtures("kueue"), pytest.mark.timeout(400)]
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def queues(k8s: KubernetesBench) -> Iterator[Queues]:
    with queues_of(k8s.real) as made:
        yield made


def job(k8s: KubernetesBench, name: str, code: str = SLEEP, **changes: Any) -> Job:
    return k8s.job(name, code, **{"queue": "team", "gpus": 1, **changes})


def queued(k8s: KubernetesBench, name: str, words: str) -> str:
    """Wait until a job is queued for a reason with these words; the reason."""

    def look() -> str | None:
        status = k8s.status(name)
        return status.reason if status.state == JobState.QUEUED and words in status.reason else None

    return str(k8s.wait(look, f"{name} to be queued: {words}"))


def pods(k8s: KubernetesBench) -> set[str]:
    """The jobs that have any."""
    return {pod["metadata"]["labels"]["slipway.dev/name"] for pod in k8s.real.api.items(k8s.core("pods"))}


def test_one_that_finds_no_quota_waits_for_its_turn_without_a_deadline_and_has_it(
    k8s: KubernetesBench, queues: Queues
) -> None:
    impatient = k8s.connect_with(queue_grace_seconds=1).cluster  # for a node, not for a queue
    impatient.jobs.submit(job(k8s, "first"))
    k8s.until("first", JobState.RUNNING)
    second = impatient.jobs.submit(job(k8s, "second", "print('ran')", deadline_seconds=60))
    reason = queued(k8s, "second", "insufficient unused quota for nvidia.com/gpu in flavor")
    assert reason.startswith("waits in the queue team: couldn't assign flavors to pod set main"), reason
    assert second.started_at is None and pods(k8s) == {"first"}
    assert k8s.cluster.jobs.stop("first", grace_seconds=0).state == JobState.STOPPED
    assert k8s.ended("second").state == JobState.COMPLETED
    k8s.wait(lambda: queues.conditions(second.uid).get("Finished") == "True", "Kueue to know that it is over")


def test_what_can_not_have_its_turn_is_told_in_kueues_words(k8s: KubernetesBench, queues: Queues) -> None:
    k8s.cluster.jobs.submit(job(k8s, "nowhere", queue="no-such-queue"))
    k8s.cluster.jobs.submit(job(k8s, "large", gpus=2))
    queued(k8s, "nowhere", "waits in the queue no-such-queue: LocalQueue no-such-queue doesn't exist")
    queued(k8s, "large", "insufficient quota for nvidia.com/gpu in flavor")
    queues.hold("Hold")
    k8s.cluster.jobs.submit(job(k8s, "held"))
    queued(k8s, "held", "is inactive")
    queues.hold("None")
    k8s.until("held", JobState.RUNNING)
    assert pods(k8s) == {"held"}


def test_one_that_is_stopped_before_its_turn_leaves_the_queue_and_gets_no_pod(
    k8s: KubernetesBench, queues: Queues
) -> None:
    """With the rights of the role that is shipped."""
    make_account(k8s.real.api, k8s.real.owner, "flows", rules("owner/roles.yaml", "slipway"))
    flows = connect_as(k8s.kubernetes, k8s.real.api, k8s.real.owner, "flows")
    k8s.cluster.jobs.submit(job(k8s, "first"))
    k8s.until("first", JobState.RUNNING)
    second = flows.jobs.submit(job(k8s, "second"))
    queued(k8s, "second", "insufficient unused quota")
    assert "insufficient unused quota" in flows.jobs.status(["second"])["second"].reason
    stopped = flows.jobs.stop("second")
    assert (stopped.state, stopped.cause) == (JobState.STOPPED, Cause.STOPPED)
    k8s.wait(lambda: queues.workload(second.uid)["spec"]["queueName"] != "team", "it to leave the queue")
    k8s.cluster.jobs.submit(job(k8s, "third", "print('ran')"))
    k8s.cluster.jobs.stop("first", grace_seconds=0)
    assert k8s.ended("third").state == JobState.COMPLETED
    assert queues.conditions(second.uid).get("Admitted") != "True"
    assert pods(k8s) == {"first", "third"} and k8s.status("second").state == JobState.STOPPED


def test_one_that_is_stopped_while_it_runs_stays_stopped(k8s: KubernetesBench, queues: Queues) -> None:
    first = k8s.cluster.jobs.submit(job(k8s, "first"))
    k8s.until("first", JobState.RUNNING)
    assert k8s.cluster.jobs.stop("first", grace_seconds=0).state == JobState.STOPPED
    k8s.wait(lambda: queues.conditions(first.uid).get("Finished") == "True", "its quota to be free")
    assert k8s.status("first").state == JobState.STOPPED and len(k8s.real.api.items(k8s.core("pods"))) == 1


def test_one_that_is_stopped_while_it_is_preempted_does_not_come_back(k8s: KubernetesBench, queues: Queues) -> None:
    k8s.cluster.jobs.submit(job(k8s, "low"))
    k8s.until("low", JobState.RUNNING)
    urgent = k8s.connect_with(priority_class=queues.priority(1000)).cluster
    urgent.jobs.submit(job(k8s, "high"))
    queued(k8s, "low", "Preempted to accommodate a workload")
    assert k8s.cluster.jobs.stop("low").state == JobState.STOPPED
    k8s.until("high", JobState.RUNNING)
    k8s.cluster.jobs.stop("high", grace_seconds=0)
    k8s.cluster.jobs.submit(job(k8s, "after", "print('ran')"))
    assert k8s.ended("after").state == JobState.COMPLETED
    assert pods(k8s) == {"high", "after"} and k8s.status("low").state == JobState.STOPPED


@pytest.mark.parametrize("way", ["never", "always"])
def test_several_nodes_are_admitted_together_or_not_at_all(k8s: KubernetesBench, way: str) -> None:
    as_they_are = k8s.connect_with(jobset=way, autoscales=True)
    as_they_are.jobset = way == "always"
    with queues_of(k8s.real, gpus=2) as queues:
        k8s.cluster.jobs.submit(job(k8s, "first"))
        k8s.until("first", JobState.RUNNING)
        gang = as_they_are.cluster.jobs.submit(job(k8s, "gang", "print('ran')", nodes=2))
        queued(as_they_are, "gang", "insufficient unused quota for nvidia.com/gpu")
        assert pods(k8s) == {"first"}  # one of its two GPUs is free
        k8s.cluster.jobs.stop("first", grace_seconds=0)
        assert as_they_are.ended("gang").state == JobState.COMPLETED
        k8s.wait(lambda: queues.conditions(gang.uid).get("Finished") == "True", "Kueue to know that it is over")
        waits = as_they_are.cluster.jobs.submit(job(k8s, "large", nodes=3))
        queued(as_they_are, "large", "insufficient quota for nvidia.com/gpu")
        assert as_they_are.cluster.jobs.stop("large").state == JobState.STOPPED
        k8s.wait(lambda: queues.workload(waits.uid)["spec"]["queueName"] != "team", "it to leave the queue")

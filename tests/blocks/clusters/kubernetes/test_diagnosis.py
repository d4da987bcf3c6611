"""Every reason for which a launch waits or ends, as Kubernetes writes them, in our words."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from blocks.clusters.job import Cause, JobState
from blocks.clusters.kubernetes.diagnosis import MAKING_GRACE_SECONDS, WAITS, diagnose
from blocks.clusters.kubernetes.gang import together
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.kubernetes.times import write_time
from blocks.clusters.kubernetes.users import users

SETTINGS = KubernetesSettings(image="registry.example/slipway:1")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> str:
    return write_time(NOW - timedelta(seconds=seconds))


def job_with(*conditions: dict[str, str], suspend: bool = False, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "one",
            "creationTimestamp": ago(60),
            "annotations": {f"slipway.dev/{key}": value for key, value in annotations.items()},
        },
        "spec": {"suspend": suspend},
        "status": {"conditions": [{"status": "True", **condition} for condition in conditions]},
    }


def pod_with(phase: str = "Pending", *, scheduled: float | None = 5, **status: Any) -> dict[str, Any]:
    conditions = status.pop("conditions", [])
    if scheduled is not None:
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(scheduled)})
    return {
        "metadata": {"name": "one-x", "creationTimestamp": ago(60)},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "main", "resources": {"limits": {"memory": "128Mi"}}}],
            "initContainers": [{"name": "init"}],
        },
        "status": {"phase": phase, "conditions": conditions, **status},
    }


def container(state: str, *, name: str = "main", **says: Any) -> list[dict[str, Any]]:
    return [{"name": name, "state": {state: says}}]


@pytest.mark.parametrize("reason", sorted(WAITS))
def test_what_a_container_waits_for_is_said_and_given_up_only_after_its_grace(reason: str) -> None:
    wait = WAITS[reason]
    grace = SETTINGS.image_grace_seconds if wait.grace is None else wait.grace
    waiting = container("waiting", reason=reason, message="said the kubelet")
    fresh = diagnose(job_with(), pod_with(scheduled=grace - 1, containerStatuses=waiting), SETTINGS, NOW)
    late = diagnose(job_with(), pod_with(scheduled=grace, containerStatuses=waiting), SETTINGS, NOW)
    assert (fresh.state, fresh.give_up, fresh.cause) == (JobState.STARTING, False, None)
    assert (late.state, late.give_up, late.cause) == (JobState.FAILED, True, Cause.START)
    for found in (fresh, late):
        assert reason in found.reason and "said the kubelet" in found.reason


def test_waiting_for_gpus_is_queued_with_the_schedulers_own_words() -> None:
    said = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    pod = pod_with(scheduled=None, conditions=[condition])
    found = diagnose(job_with(), pod, SETTINGS, NOW)
    assert (found.state, found.give_up) == (JobState.QUEUED, False)
    assert found.reason == f"waits for GPUs: {said.rstrip('.')}"
    impatient = SETTINGS.model_copy(update={"queue_grace_seconds": 30})
    assert diagnose(job_with(), pod, impatient, NOW).give_up


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ("1 node(s) had volume node affinity conflict", "node that can reach its volume"),
        ("pod has unbound immediate PersistentVolumeClaims", "volume to be provisioned"),
        ("1 node(s) had untolerated taint {gpu: only}", "tolerations"),
        ("1 node(s) didn't match Pod's node affinity/selector", "node of that kind"),
        ("2 Insufficient memory", "memory"),
        ("2 Insufficient cpu", "CPUs"),
    ],
)
def test_why_no_node_takes_it_is_said_in_a_word(message: str, what: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    assert what in diagnose(job_with(), pod_with(scheduled=None, conditions=[condition]), SETTINGS, NOW).reason


@pytest.mark.parametrize(
    ("status", "cause", "says"),
    [
        (container("terminated", exitCode=137, reason="OOMKilled"), Cause.OUT_OF_MEMORY, "'main'.*128Mi"),
        (container("terminated", exitCode=3, reason="Error"), Cause.EXIT, "code 3"),
        (container("terminated", exitCode=139, reason="Error"), Cause.SIGNAL, "SIGSEGV"),
        (container("terminated", exitCode=200, reason="Error"), Cause.EXIT, "200"),
        (container("terminated", exitCode=128, reason="StartError", message="exec: no-x"), Cause.START, "exec: no-x"),
        (container("terminated", exitCode=137, reason="ContainerStatusUnknown"), Cause.LOST, "node"),
        (container("terminated", exitCode=255, reason="Unknown"), Cause.LOST, "node"),
    ],
)
def test_a_failed_program_says_why(status: list[dict[str, Any]], cause: Cause, says: str) -> None:
    found = diagnose(job_with(), pod_with("Failed", containerStatuses=status), SETTINGS, NOW)
    assert (found.cause, found.state.live) == (cause, False)
    assert re.search(says, found.reason)


@pytest.mark.parametrize(
    ("status", "cause", "state"),
    [
        ({"reason": "Evicted", "message": "The node was low on memory."}, Cause.EVICTED, JobState.FAILED),
        ({"reason": "OutOfnvidia.com/gpu"}, Cause.EVICTED, JobState.FAILED),
        ({"reason": "NodeLost"}, Cause.LOST, JobState.LOST),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
            Cause.EVICTED,
            JobState.FAILED,
        ),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]},
            Cause.LOST,
            JobState.LOST,
        ),
    ],
)
def test_what_was_done_to_a_pod_is_no_failure_of_its_program(
    status: dict[str, Any], cause: Cause, state: JobState
) -> None:
    killed = container("terminated", exitCode=137, reason="Error")
    found = diagnose(job_with(), pod_with("Failed", containerStatuses=killed, **status), SETTINGS, NOW)
    assert (found.cause, found.state) == (cause, state)
    assert found.cause and found.cause.infrastructure


def test_a_job_whose_pod_was_deleted_is_lost_and_one_whose_node_was_drained_was_evicted() -> None:
    deleted = job_with({"type": "Failed", "reason": "BackoffLimitExceeded"})
    drained = job_with({"type": "Failed", "reason": "PodFailurePolicy", "message": "matching FailJob rule"})
    assert diagnose(deleted, None, SETTINGS, NOW).state == JobState.LOST
    assert diagnose(drained, None, SETTINGS, NOW).cause == Cause.EVICTED


def test_a_pod_on_a_node_that_does_not_answer_is_lost_after_a_while_and_never_stuck() -> None:
    pod = pod_with("Running", containerStatuses=container("running"))
    pod["metadata"]["deletionTimestamp"] = ago(60)
    assert diagnose(job_with(), pod, SETTINGS, NOW).state == JobState.RUNNING
    pod["metadata"]["deletionTimestamp"] = ago(600)
    found = diagnose(job_with(), pod, SETTINGS, NOW)
    assert (found.state, found.give_up) == (JobState.LOST, True)


def test_a_program_that_ends_in_good_order_because_its_pod_was_deleted_is_not_done() -> None:
    done = pod_with("Succeeded", containerStatuses=container("terminated", exitCode=0, finishedAt=ago(10)))
    assert diagnose(job_with(), done, SETTINGS, NOW).state == JobState.COMPLETED
    done["metadata"] |= {"deletionTimestamp": ago(0), "deletionGracePeriodSeconds": 5}
    assert diagnose(job_with(), done, SETTINGS, NOW).state == JobState.COMPLETED
    done["metadata"] |= {"deletionGracePeriodSeconds": 30}
    found = diagnose(job_with(), done, SETTINGS, NOW)
    assert (found.state, found.fleeting) == (JobState.LOST, True)


def test_a_pod_that_goes_because_a_queue_took_its_job_back_is_no_lost_job() -> None:
    gone = pod_with("Failed", containerStatuses=container("terminated", exitCode=143, finishedAt=ago(1)))
    gone["metadata"] |= {"deletionTimestamp": ago(0), "deletionGracePeriodSeconds": 30}
    assert diagnose(job_with(), gone, SETTINGS, NOW).state == JobState.LOST
    assert diagnose(job_with(suspend=True), gone, SETTINGS, NOW).state == JobState.QUEUED
    assert diagnose(job_with({"type": "Suspended"}), gone, SETTINGS, NOW).state == JobState.QUEUED  # about to start
    again = job_with()
    again["status"]["startTime"] = ago(2)  # started again, and the pod of the first start is not gone yet
    assert diagnose(again, gone, SETTINGS, NOW).state == JobState.QUEUED


def test_a_stopped_job_is_live_until_its_pod_has_ended() -> None:
    running = pod_with("Running", containerStatuses=container("running"))
    assert diagnose(job_with(stop=ago(1)), running, SETTINGS, NOW).state == JobState.RUNNING
    killed = pod_with("Failed", reason="DeadlineExceeded", containerStatuses=container("terminated", exitCode=143))
    assert diagnose(job_with(stop=ago(1)), killed, SETTINGS, NOW).state == JobState.STOPPED
    assert diagnose(job_with(stop=ago(1)), None, SETTINGS, NOW).state == JobState.QUEUED
    taken_back = job_with(stop=ago(1), suspend=True)  # by a queue, which would start it again
    assert diagnose(taken_back, None, SETTINGS, NOW).state == JobState.QUEUED
    taken_back["spec"] |= {"activeDeadlineSeconds": 0}
    assert diagnose(taken_back, None, SETTINGS, NOW).state == JobState.STOPPED


def test_a_job_that_completed_before_it_was_stopped_has_completed() -> None:
    assert diagnose(job_with({"type": "Complete"}, stop=ago(1)), None, SETTINGS, NOW).state == JobState.COMPLETED


def test_what_was_given_up_stays_given_up() -> None:
    end = json.dumps({"state": "failed", "cause": "start", "reason": "no image"})
    found = diagnose(job_with(end=end, suspend=True), None, SETTINGS, NOW)
    assert (found.state, found.cause, found.reason) == (JobState.FAILED, Cause.START, "no image")


REFUSED = [{"reason": "FailedCreate", "message": 'pods "x" is forbidden: every pod has a cost-center label'}]
NO_QUOTA = [{"reason": "FailedCreate", "message": 'pods "x" is forbidden: exceeded quota: team'}]


def made(seconds: float, **status: int) -> dict[str, Any]:
    job = job_with()
    job["metadata"]["creationTimestamp"] = ago(seconds)
    return {**job, "status": {**job["status"], **status}}


@pytest.mark.parametrize(("events", "says"), [(REFUSED, "cost-center"), ([], "controller runs")])
def test_a_pod_that_is_refused_or_made_by_nobody_is_waited_for_no_longer_than_its_grace(
    events: list[dict[str, str]], says: str
) -> None:
    fresh = diagnose(made(MAKING_GRACE_SECONDS - 1), None, SETTINGS, NOW, events)
    late = diagnose(made(MAKING_GRACE_SECONDS + 1), None, SETTINGS, NOW, events)
    assert (fresh.state, fresh.give_up) == (JobState.QUEUED, False)
    assert (late.state, late.cause, late.give_up, says in late.reason) == (JobState.FAILED, Cause.START, True, True)


def test_quota_is_waited_for_as_long_as_the_settings_say() -> None:
    job, impatient = made(3600), SETTINGS.model_copy(update={"queue_grace_seconds": 60})
    assert not diagnose(job, None, SETTINGS, NOW, NO_QUOTA).give_up
    found = diagnose(job, None, impatient, NOW, NO_QUOTA)
    assert (found.cause, found.give_up, "exceeded quota: team" in found.reason) == (Cause.START, True, True)


@pytest.mark.parametrize("seen", ["active", "failed", "terminating"])
def test_a_pod_that_was_there_and_is_not_is_no_pod_that_was_never_made(seen: str) -> None:
    assert not diagnose(made(10 * MAKING_GRACE_SECONDS, **{seen: 1}), None, SETTINGS, NOW, REFUSED).give_up


def test_of_several_nodes_the_ones_without_a_pod_are_said_with_their_reason() -> None:
    job = made(60, active=1)
    job["spec"]["completions"] = 2
    pod = pod_with("Running", containerStatuses=container("running"))
    found, _ = together(job, [pod], lambda pod: diagnose(job, pod, SETTINGS, NOW, NO_QUOTA))
    assert (found.state, "1 of its 2 pods" in found.reason, "exceeded quota: team" in found.reason) == (
        JobState.QUEUED, True, True,
    )  # fmt: skip
    job["metadata"]["creationTimestamp"] = ago(MAKING_GRACE_SECONDS + 1)
    assert together(job, [pod], lambda pod: diagnose(job, pod, SETTINGS, NOW, REFUSED))[0].give_up
    both = {**job, "status": {"active": 2}}
    found, _ = together(both, [pod, pod], lambda pod: diagnose(both, pod, SETTINGS, NOW))
    assert found.state is JobState.RUNNING


def test_a_job_that_quota_keeps_without_a_pod_says_so() -> None:
    events = [{"reason": "FailedCreate", "message": 'pods "x" is forbidden: exceeded quota: team'}]
    found = diagnose(job_with(), None, SETTINGS, NOW, events)
    assert found.state == JobState.QUEUED
    assert found.reason.startswith("waits for quota") and "exceeded quota: team" in found.reason


def test_the_init_command_is_told_from_the_command() -> None:
    runs = pod_with(initContainerStatuses=container("running", name="init"))
    assert diagnose(job_with(), runs, SETTINGS, NOW).reason == "its init command runs"
    failed = pod_with("Failed", initContainerStatuses=container("terminated", name="init", exitCode=3))
    assert diagnose(job_with(), failed, SETTINGS, NOW).cause == Cause.INIT


def test_a_cut_first_line_of_a_log_is_not_shown() -> None:
    log = "x" * 2040 + "\nlast line"
    status = container("terminated", exitCode=1, message=log[-2048:])
    assert diagnose(job_with(), pod_with("Failed", containerStatuses=status), SETTINGS, NOW).last_lines == (
        "last line",
    )


def test_anybodys_pod_uses_a_volume_and_an_internal_session_does_not() -> None:
    def mounts(name: str, phase: str = "Running", **labels: str) -> dict[str, Any]:
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "shelf"}}
        named = {f"slipway.dev/{key}": value for key, value in labels.items()}
        return {
            "metadata": {"name": name, "labels": named, "deletionTimestamp": ago(1)},
            "spec": {"volumes": [volume]},
            "status": {"phase": phase},
        }

    pods = [
        mounts("notebook"),
        mounts("session-1", kind="session", internal="false"),
        mounts("ours", kind="session", internal="true"),
        mounts("done", "Succeeded", kind="job"),
        mounts("left", "Succeeded"),
    ]
    queued = job_with(mounts=json.dumps([{"volume": "shelf"}]))
    assert users(pods, [queued]) == {
        "shelf": ["job one", "pod notebook", "session session-1", "pod left (ended; delete it)"]
    }

"""A JobSet around a Job, and back: what both say is checked without a cluster."""

import copy
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.clusters.job import Job, JobState
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes import manifests
from blocks.clusters.kubernetes.diagnosis import diagnose
from blocks.clusters.kubernetes.jobset import child_name, jobset_name, unwrap
from blocks.clusters.kubernetes.labels import selector
from blocks.clusters.kubernetes.users import users
from tests.blocks.clusters.kubernetes.test_diagnosis import NOW, SETTINGS
from tests.blocks.clusters.kubernetes.test_manifests import run_of

DNS_1035 = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)


def gang(**changes: Any) -> Job:
    return run_of(**{"nodes": 2, **changes})


def jobset_of(job: Job, **status: Any) -> dict[str, Any]:
    """As the API server has it."""
    made = manifests.job(job, SETTINGS, as_jobset=True)
    made["metadata"] |= {"uid": "of-the-jobset", "creationTimestamp": "2026-01-01T11:59:00Z"}
    return {**made, "status": status}


def child_of(jobset: dict[str, Any], **status: Any) -> dict[str, Any]:
    """The Job that JobSet's controller makes of it."""
    (group,) = jobset["spec"]["replicatedJobs"]
    made = copy.deepcopy(group["template"])
    made["metadata"]["uid"] = "of-the-job"
    made["spec"]["suspend"] = jobset["spec"].get("suspend", False)
    return {**made, "status": status}


def test_it_makes_the_job_once_and_never_again() -> None:
    jobset = jobset_of(gang())
    (group,) = jobset["spec"]["replicatedJobs"]
    assert (group["replicas"], jobset["spec"]["failurePolicy"]) == (1, {"maxRestarts": 0})
    assert group["template"]["spec"]["backoffLimit"] == 0
    assert (group["template"]["spec"]["completions"], group["template"]["spec"]["parallelism"]) == (2, 2)
    assert "ttlSecondsAfterFinished" not in group["template"]["spec"], "the job is there as long as what stands for it"
    assert jobset["spec"]["ttlSecondsAfterFinished"] == manifests.KEEP_ENDED_JOBS_SECONDS


def test_one_selector_finds_it_its_job_and_their_pods() -> None:
    jobset = jobset_of(gang())
    (group,) = jobset["spec"]["replicatedJobs"]
    wanted = dict(
        pair.split("=") for pair in selector({**marks.OURS, marks.KIND: "job", marks.NAME: gang().name}).split(",")
    )
    for metadata in (jobset, group["template"], group["template"]["spec"]["template"]):
        assert wanted.items() <= metadata["metadata"]["labels"].items()


def test_what_waits_in_a_queue_is_the_jobset() -> None:
    jobset = jobset_of(gang(queue="team"))
    (group,) = jobset["spec"]["replicatedJobs"]
    assert (jobset["spec"]["suspend"], jobset["metadata"]["labels"][marks.QUEUE]) == (True, "team")
    assert "suspend" not in group["template"]["spec"]
    assert marks.QUEUE not in group["template"]["metadata"]["labels"]


def test_the_first_node_is_where_jobset_puts_it() -> None:
    pod = jobset_of(gang())["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    variables = {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}
    name = gang().name
    assert variables["MASTER_ADDR"] == variables["PET_MASTER_ADDR"] == f"{name}-n-0-0.{name}"
    assert pod["subdomain"] == name


@given(NAMES)
def test_every_name_fits_with_what_is_appended_for_a_thousand_nodes(name: str) -> None:
    assert DNS_1035.fullmatch(jobset_name(name))
    assert len(f"{child_name(name)}-999-abcde") <= 63
    assert unwrap(jobset_of(gang(name=name)), None)["metadata"]["name"] == name


@given(st.lists(NAMES, min_size=2, max_size=2, unique=True))
def test_two_jobs_are_two_jobsets(names: list[str]) -> None:
    assert jobset_name(names[0]) != jobset_name(names[1])


def test_it_goes_as_its_job_goes_under_the_name_and_the_uid_that_were_asked_for() -> None:
    jobset = jobset_of(gang(), conditions=[])
    job = unwrap(jobset, child_of(jobset, conditions=[{"type": "Complete", "status": "True"}]))
    assert (job["metadata"]["name"], job["metadata"]["uid"]) == (gang().name, "of-the-jobset")
    assert diagnose(job, None, SETTINGS, NOW).state == JobState.COMPLETED


def test_without_its_job_it_waits_for_it_and_says_so() -> None:
    found = diagnose(unwrap(jobset_of(gang()), None), None, SETTINGS, NOW)
    assert (found.state, found.reason, found.unexplained) == (JobState.QUEUED, "waits for JobSet to make its Job", True)
    refused = {"reason": "JobCreationFailed", "message": "exceeded quota: team, requested: count/jobs.batch=1"}
    explained = diagnose(unwrap(jobset_of(gang()), None), None, SETTINGS, NOW, [refused])
    assert explained.reason.startswith("waits for quota: exceeded quota")


@pytest.mark.parametrize(
    ("condition", "state"),
    [("Completed", JobState.COMPLETED), ("Failed", JobState.LOST), ("Suspended", JobState.QUEUED)],
)
def test_how_it_ended_outlives_its_job(condition: str, state: JobState) -> None:
    jobset = jobset_of(gang(), conditions=[{"type": condition, "status": "True", "reason": "x", "message": "y"}])
    assert diagnose(unwrap(jobset, None), None, SETTINGS, NOW).state == state


def test_until_its_job_is_there_and_can_not_start_any_more_it_is_not_stopped() -> None:
    jobset = jobset_of(gang())
    child = child_of(jobset)
    jobset["metadata"]["annotations"][marks.STOP] = "2026-01-01T12:00:00Z"
    jobset["spec"]["suspend"] = True
    assert diagnose(unwrap(jobset, child), None, SETTINGS, NOW).state.live
    assert diagnose(unwrap(jobset, None), None, SETTINGS, NOW).state.live
    child["spec"]["suspend"] = True
    assert diagnose(unwrap(jobset, child), None, SETTINGS, NOW).state.live
    child["spec"]["activeDeadlineSeconds"] = 0
    assert diagnose(unwrap(jobset, child), None, SETTINGS, NOW).state == JobState.STOPPED


def test_a_volume_is_used_by_the_job_not_by_the_name_that_jobset_gives_it() -> None:
    jobset = jobset_of(gang())
    template = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    owners = [{"kind": "Job", "uid": "of-the-job"}]
    labels = {**template["metadata"]["labels"], "batch.kubernetes.io/job-name": child_name(gang().name)}
    pod = {"metadata": {"name": "x", "labels": labels, "ownerReferences": owners}, "spec": template["spec"]}
    job = unwrap(jobset, child_of(jobset))
    assert users([{**pod, "status": {"phase": "Running"}}], [job]) == {"shelf": [f"job {gang().name}"]}
    assert users([{**pod, "status": {"phase": "Failed"}}], [job]) == {}

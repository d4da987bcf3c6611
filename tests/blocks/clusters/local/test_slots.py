import os
import signal
from itertools import count

from blocks.clusters.errors import ConflictError
from blocks.clusters.job import JobState
from blocks.clusters.local.cluster import LocalCluster
from blocks.clusters.local.slots import Claim, Room, decide
from tests.blocks.clusters.local.bench import SLEEP, LocalBench

ROOM = Room(cpus=4, memory_bytes=100, gpus={"h100": 2, "a100": 4})
SHOW = "import os; print('gpus', os.environ['CUDA_VISIBLE_DEVICES'])\n"
numbers = count(1)


def held(job: str, **what: object) -> Claim:
    return Claim(job=job, submitted=next(numbers), granted=True, **what)


def waiting(job: str, **what: object) -> Claim:
    return Claim(job=job, submitted=next(numbers), **what)


def test_gpus_are_numbered_in_the_order_of_their_kinds() -> None:
    assert decide(waiting("a", gpus=2, gpu_kind="h100"), [], ROOM).indices == (0, 1)
    assert decide(waiting("a", gpus=2, gpu_kind="a100"), [], ROOM).indices == (2, 3)


def test_a_job_gets_all_or_none_and_all_of_one_kind() -> None:
    others = [held("x", gpus=1, gpu_kind="h100", indices=(1,))]
    assert decide(waiting("a", gpus=2, gpu_kind="h100"), others, ROOM) == "waits for 2 of 2 h100 GPUs: held by job x"
    assert decide(waiting("a", gpus=1, gpu_kind="h100"), others, ROOM).indices == (0,)
    assert decide(waiting("a", gpus=2), others, ROOM).indices == (2, 3)


def test_nobody_overtakes_on_what_an_earlier_job_waits_for() -> None:
    others = [held("x", gpus=1, gpu_kind="h100", indices=(0,)), waiting("y", gpus=2, gpu_kind="h100")]
    later = waiting("z", gpus=1, gpu_kind="h100")
    assert decide(later, others, ROOM) == "waits for 1 of 2 h100 GPUs: held by job x, wanted before it by job y"
    assert decide(waiting("w", gpus=1, gpu_kind="a100"), others, ROOM).indices == (2,)
    assert decide(waiting("v", cpus=1), others, ROOM).granted


def test_a_later_job_takes_nothing_from_an_earlier_one() -> None:
    early = waiting("early", cpus=4)
    assert decide(early, [waiting("late", cpus=4)], ROOM).granted


def test_cpus_and_memory_are_counted() -> None:
    others = [held("x", cpus=3.5, memory_bytes=90)]
    assert decide(waiting("a", cpus=0.5, memory_bytes=10), others, ROOM).granted
    assert decide(waiting("a", cpus=1), others, ROOM) == "waits for 1 of 4 CPUs: held by job x"
    assert decide(waiting("a", memory_bytes=11), others, ROOM) == "waits for memory: held by job x"


def test_a_job_sees_the_gpus_it_has_and_no_other(local: LocalBench) -> None:
    show = SHOW + SLEEP
    local.running("a", show, gpus=1)
    local.running("b", show, gpus=1, gpu_kind="h100")
    local.running("c", show)
    seen = [next(iter(local.cluster.jobs.logs(name))) for name in "abc"]
    assert seen == ["gpus 0", "gpus 1", "gpus "]


def test_jobs_that_wait_are_served_in_the_order_in_which_they_were_submitted(local: LocalBench) -> None:
    local.volume()
    local.running("holder", gpus=2)
    names = ["w3", "w1", "w2"]
    for name in names:
        local.cluster.jobs.submit(local.job(name, "", gpus=2))
    for name in names:
        local.wait(lambda name=name: "GPU" in local.status(name).reason)
    assert "wanted before it by jobs w1, w3" in local.status("w2").reason
    local.cluster.jobs.stop("holder", grace_seconds=0)
    started = {name: local.ended(name).started_at for name in names}
    assert sorted(names, key=lambda name: started[name]) == names


def test_no_two_jobs_ever_have_the_same_gpu(local: LocalBench) -> None:
    code = (
        "import os, sys, time; busy = sys.argv[1] + '/gpu-' + os.environ['CUDA_VISIBLE_DEVICES']\n"
        "os.close(os.open(busy, os.O_CREAT | os.O_EXCL)); time.sleep(0.05); os.unlink(busy)"
    )
    names = [f"job-{number}" for number in range(12)]
    for name in names:
        local.cluster.jobs.submit(local.job(name, code, str(local.root), gpus=1))
    assert {local.ended(name).state for name in names} == {JobState.COMPLETED}


def test_a_dead_jobs_slots_are_free_but_not_while_its_program_lives(local: LocalBench) -> None:
    program = local.running("a", gpus=2)
    local.kill_supervisor("a")
    local.cluster.jobs.submit(local.job("b", "", gpus=1))
    local.wait(lambda: "held by job a" in local.status("b").reason)
    os.kill(program.pid, signal.SIGKILL)
    assert local.ended("b").state == JobState.COMPLETED


def test_slots_are_shared_by_all_owners_of_the_machine(local: LocalBench) -> None:
    other = LocalCluster(local.root, owner="team", cpus=8, gpus={"h100": 2})
    local.running("a", gpus=2)
    other.jobs.submit(local.job("a", "", gpus=1))
    local.wait(lambda: "held by job a" in other.jobs.status(["a"])["a"].reason)
    assert other.volumes.list() == []
    local.cluster.jobs.stop("a", grace_seconds=0)
    local.wait(lambda: not other.jobs.status(["a"])["a"].live)


def test_owners_do_not_see_each_others_volumes(local: LocalBench) -> None:
    other = LocalCluster(local.root, owner="team")
    local.volume("shelf")
    other.volumes.create("shelf", 2**30)
    assert [v.owner for v in other.volumes.list()] == ["team"]
    try:
        other.volumes.create("shelf", 2**30)
        raise AssertionError
    except ConflictError:
        pass

import signal
from datetime import UTC, datetime

import pytest

from blocks.clusters.errors import ConflictError, InUseError, NotFoundError, UsageError
from blocks.clusters.job import Cause, JobState, Mount, SecretRef
from blocks.clusters.port import Cluster
from tests.blocks.clusters.bench import GI, Bench, on_shelf

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def test_a_job_runs_to_its_end_and_its_log_can_be_read(bench: Bench) -> None:
    job = bench.job("one", "import sys; print('out'); print('err', file=sys.stderr)", labels={"run": "a"})
    bench.cluster.jobs.submit(job)
    ended = bench.ended("one")
    assert (ended.state, ended.cause, ended.exit_code) == (JobState.COMPLETED, Cause.COMPLETED, 0)
    assert ended.started_at and ended.ended_at
    assert ended.submitted_at <= ended.started_at <= ended.ended_at
    assert (ended.labels, ended.request_hash) == ({"run": "a"}, "asked")
    assert sorted(bench.cluster.jobs.logs("one")) == ["err", "out"]


def test_a_job_outlives_the_process_that_submitted_it(bench: Bench) -> None:
    submitter = bench.elsewhere(
        f"cluster.jobs.submit(Job(name='one', request_hash='asked', command=('python', '-c', {SLEEP!r})))\n"
        "print('submitted', flush=True)\nimport time; time.sleep(600)"
    )
    assert submitter.stdout and submitter.stdout.readline() == "submitted\n"
    submitter.send_signal(signal.SIGKILL)
    submitter.wait()
    bench.until("one", JobState.RUNNING)
    bench.wait(lambda: "up" in bench.cluster.jobs.logs("one"))


def test_submitting_it_again_adopts_it_whatever_its_state(bench: Bench) -> None:
    job = bench.job("one", "print('once')")
    first = bench.cluster.jobs.submit(job)
    assert bench.cluster.jobs.submit(job).uid == first.uid
    bench.ended("one")
    again = bench.cluster.jobs.submit(job)
    assert (again.uid, again.state) == (first.uid, JobState.COMPLETED)
    assert list(bench.cluster.jobs.logs("one")) == ["once"]


def test_two_processes_that_submit_it_at_the_same_moment_start_it_once(bench: Bench) -> None:
    bench.volume()
    code = (
        "job = Job(name='one', request_hash='asked', cpus=0.1, mounts=(Mount(volume='shelf', read_only=False),),\n"
        "  command=('python', '-c', 'import sys; open(sys.argv[1], \"a\").write(\"x\")', '/volume/starts'))\n"
        "print('ready', flush=True); sys.stdin.readline(); print(cluster.jobs.submit(job).uid)"
    )
    submitters = [bench.elsewhere(code) for _ in range(4)]
    for submitter in submitters:
        assert submitter.stdout and submitter.stdout.readline() == "ready\n"
    for submitter in submitters:
        assert submitter.stdin
        submitter.stdin.write("\n")
        submitter.stdin.flush()
    uids = {submitter.communicate()[0] for submitter in submitters}
    assert len(uids) == 1
    assert bench.ended("one").state == JobState.COMPLETED
    read = bench.job("two", "import sys; print(open(sys.argv[1]).read())", "/volume/starts", mounts=(on_shelf(),))
    bench.cluster.jobs.submit(read)
    bench.ended("two")
    assert list(bench.cluster.jobs.logs("two")) == ["x"]


def test_another_request_under_the_same_name_is_a_conflict(bench: Bench) -> None:
    bench.cluster.jobs.submit(bench.job("one", SLEEP))
    with pytest.raises(ConflictError, match="one"):
        bench.cluster.jobs.submit(bench.job("one", SLEEP, request_hash="otherwise"))


def test_a_job_on_a_missing_volume_is_refused_and_leaves_nothing_behind(bench: Bench) -> None:
    with pytest.raises(NotFoundError, match="shelf"):
        bench.cluster.jobs.submit(bench.job("one", mounts=(on_shelf(),)))
    assert bench.cluster.jobs.find({}) == []


def test_a_job_with_a_missing_secret_is_refused_and_leaves_nothing_behind(bench: Bench) -> None:
    with pytest.raises(NotFoundError, match="HF_TOKEN_ABSENT"):
        bench.cluster.jobs.submit(bench.job("one", secrets={"T": SecretRef(name="hub", key="HF_TOKEN_ABSENT")}))
    assert bench.cluster.jobs.find({}) == []


@pytest.mark.parametrize("name", ["One", "a/b", "", "a" * 64])
def test_a_bad_job_name_is_refused(bench: Bench, name: str) -> None:
    with pytest.raises(UsageError):
        bench.cluster.jobs.submit(bench.job(name))


def test_volumes_are_mounted_where_the_job_says(bench: Bench) -> None:
    bench.volume()
    mounts = (Mount(volume="shelf"), on_shelf(sub_path="runs/a", mount_path="/volume/runs/a"))
    write = "import sys; open(sys.argv[1] + '/note', 'w').write('hello')"
    bench.cluster.jobs.submit(bench.job("writer", write, "/volume/runs/a", mounts=mounts))
    assert bench.ended("writer").state == JobState.COMPLETED
    read = "import sys, os; print(open(sys.argv[1]).read(), open(os.environ['NOTE']).read())"
    env = {"NOTE": "/volume/runs/a/note"}
    bench.cluster.jobs.submit(bench.job("reader", read, "/volume/runs/a/note", env=env, mounts=(on_shelf(),)))
    assert bench.ended("reader").state == JobState.COMPLETED
    assert list(bench.cluster.jobs.logs("reader")) == ["hello hello"]


def test_a_sub_path_can_not_lead_out_of_its_volume(bench: Bench) -> None:
    bench.volume()
    with pytest.raises(UsageError, match="out of the volume"):
        bench.cluster.jobs.submit(bench.job("one", mounts=(on_shelf(sub_path="../.."),)))


def test_a_read_only_mount_can_not_be_written(bench: Bench) -> None:
    if not bench.contains:
        pytest.skip("nothing keeps a process of the same user from writing to a directory")
    bench.volume()
    code = "import sys; open(sys.argv[1], 'w')"
    bench.cluster.jobs.submit(bench.job("one", code, "/volume/x", mounts=(on_shelf(read_only=True),)))
    assert bench.ended("one").cause == Cause.EXIT
    assert "Read-only" in bench.status("one").last_lines[-1]


def test_a_job_over_its_memory_limit_is_out_of_memory(bench: Bench) -> None:
    if not bench.contains:
        pytest.skip("memory is counted for the queue and not limited")
    bench.cluster.jobs.submit(bench.job("one", "x = bytearray(2**30)", memory_bytes=GI // 8))
    assert bench.ended("one").cause == Cause.OUT_OF_MEMORY


def test_scratch_is_writable_and_gone_with_the_job(bench: Bench) -> None:
    code = "import sys, os; p = sys.argv[1] + '/kept'; print(os.path.exists(p)); open(p, 'w').write('x')"
    for name in ("one", "two"):
        bench.cluster.jobs.submit(bench.job(name, code, "/scratch"))
        assert bench.ended(name).state == JobState.COMPLETED
        assert list(bench.cluster.jobs.logs(name)) == ["False"]


def test_the_init_command_runs_first(bench: Bench) -> None:
    job = bench.job("one", "print('second')", init_command=("python", "-c", "print('first')"))
    bench.cluster.jobs.submit(job)
    assert bench.ended("one").state == JobState.COMPLETED
    assert list(bench.cluster.jobs.logs("one")) == ["first", "second"]


def test_a_job_is_starting_while_its_init_command_runs(bench: Bench) -> None:
    bench.cluster.jobs.submit(bench.job("one", "", init_command=("python", "-c", SLEEP)))
    bench.until("one", JobState.STARTING)


def test_a_failed_init_command_is_the_jobs_failure(bench: Bench) -> None:
    job = bench.job("one", "print('never')", init_command=("python", "-c", "print('torn'); raise SystemExit(3)"))
    bench.cluster.jobs.submit(job)
    ended = bench.ended("one")
    assert (ended.state, ended.cause, ended.last_lines) == (JobState.FAILED, Cause.INIT, ("torn",))
    assert "init command" in ended.reason and "3" in ended.reason


def test_a_failed_command_says_its_exit_code_and_its_last_lines(bench: Bench) -> None:
    code = "[print('line', n) for n in range(500)]; raise SystemExit(7)"
    bench.cluster.jobs.submit(bench.job("one", code))
    ended = bench.ended("one")
    assert (ended.state, ended.cause, ended.exit_code) == (JobState.FAILED, Cause.EXIT, 7)
    assert "7" in ended.reason
    assert ended.last_lines[-1] == "line 499"


def test_a_command_that_is_not_there_failed_to_start(bench: Bench) -> None:
    bench.cluster.jobs.submit(bench.job("one", command=("no-such-trainer", "--help")))
    ended = bench.ended("one")
    assert (ended.state, ended.cause) == (JobState.FAILED, Cause.START)
    assert "no-such-trainer" in ended.reason


def test_a_program_that_kills_itself_was_killed_by_a_signal(bench: Bench) -> None:
    code = "import os; print('last words', flush=True); os.kill(os.getpid(), 11)"
    bench.cluster.jobs.submit(bench.job("one", command=("sh", "-c", 'exec python -c "$0"', code)))
    ended = bench.ended("one")
    assert (ended.state, ended.cause) == (JobState.FAILED, Cause.SIGNAL)
    assert "SIGSEGV" in ended.reason
    assert ended.last_lines == ("last words",)


def test_a_stopped_job_is_told_and_may_finish_its_work(bench: Bench) -> None:
    code = (
        "import signal, time\ndef end(*_):\n    print('saved'); raise SystemExit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(600)"
    )
    bench.cluster.jobs.submit(bench.job("one", code))
    bench.wait(lambda: "up" in bench.cluster.jobs.logs("one"))
    stopped = bench.cluster.jobs.stop("one")
    assert (stopped.state, stopped.cause) == (JobState.STOPPED, Cause.STOPPED)
    assert list(bench.cluster.jobs.logs("one")) == ["up", "saved"]


def test_a_job_that_ignores_it_is_killed_after_the_grace_time(bench: Bench) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\n"
    code += "print('up', flush=True)\nwhile True: time.sleep(1)"
    bench.cluster.jobs.submit(bench.job("one", code))
    bench.wait(lambda: "up" in bench.cluster.jobs.logs("one"))
    assert bench.cluster.jobs.stop("one", grace_seconds=1).state == JobState.STOPPED
    assert list(bench.cluster.jobs.logs("one")) == ["up", "no"]


def test_stopping_an_ended_job_changes_nothing(bench: Bench) -> None:
    bench.cluster.jobs.submit(bench.job("one"))
    ended = bench.ended("one")
    assert bench.cluster.jobs.stop("one") == ended


def test_stopping_a_missing_job_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(NotFoundError):
        cluster.jobs.stop("one")
    with pytest.raises(NotFoundError):
        list(cluster.jobs.logs("one"))


def test_a_job_past_its_deadline_is_ended(bench: Bench) -> None:
    bench.cluster.jobs.submit(bench.job("one", SLEEP, deadline_seconds=1))
    ended = bench.ended("one")
    assert (ended.state, ended.cause) == (JobState.FAILED, Cause.DEADLINE)
    assert "deadline of 1 second" in ended.reason


def test_a_job_that_asks_for_more_than_there_is_is_refused(bench: Bench) -> None:
    for more in ({"gpus": 3}, {"gpus": 1, "gpu_kind": "b300"}, {"cpus": 1000}, {"memory_bytes": 10**6 * GI}):
        with pytest.raises(UsageError, match="h100"):
            bench.cluster.jobs.submit(bench.job("one", **more))
    assert bench.cluster.jobs.find({}) == []


@pytest.mark.alone
def test_a_job_waits_for_gpus_with_a_reason_and_runs_when_they_are_free(bench: Bench) -> None:
    bench.cluster.jobs.submit(bench.job("holder", SLEEP, gpus=2, gpu_kind="h100"))
    bench.until("holder", JobState.RUNNING)
    bench.cluster.jobs.submit(bench.job("waiter", "print('ran')", gpus=1, gpu_kind="h100"))
    waiting = bench.wait(lambda: s if (s := bench.status("waiter")).reason else None)
    assert waiting.state == JobState.QUEUED
    bench.wait(lambda: "GPU" in bench.status("waiter").reason)
    bench.cluster.jobs.stop("holder", grace_seconds=0)
    assert bench.ended("waiter").state == JobState.COMPLETED


@pytest.mark.alone
def test_a_job_that_waits_can_be_stopped(bench: Bench) -> None:
    bench.cluster.jobs.submit(bench.job("holder", SLEEP, gpus=2))
    bench.until("holder", JobState.RUNNING)
    bench.cluster.jobs.submit(bench.job("waiter", "print('ran')", gpus=1))
    stopped = bench.cluster.jobs.stop("waiter")
    assert (stopped.state, stopped.started_at) == (JobState.STOPPED, None)


def test_jobs_are_found_by_their_labels_oldest_first(bench: Bench) -> None:
    for name, labels in (("b", {"run": "x", "n": "1"}), ("a", {"run": "x"}), ("c", {"run": "y"})):
        bench.cluster.jobs.submit(bench.job(name, labels=labels))
    assert [s.name for s in bench.cluster.jobs.find({"run": "x"})] == ["b", "a"]
    assert [s.name for s in bench.cluster.jobs.find({"run": "x", "n": "1"})] == ["b"]
    assert len(bench.cluster.jobs.find({})) == 3
    assert set(bench.cluster.jobs.status(["a", "c", "missing"])) == {"a", "c"}


def test_watching_shows_every_change_until_the_end(bench: Bench) -> None:
    bench.volume()
    code = "import sys, time, pathlib\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)"
    bench.cluster.jobs.submit(bench.job("one", code, "/volume/go", labels={"run": "x"}, mounts=(on_shelf(),)))
    seen: list[JobState] = []
    for status in bench.cluster.jobs.watch({"run": "x"}, timeout_seconds=180):
        if status.state == JobState.RUNNING and status.state not in seen:  # it ends once it was seen to run
            go = bench.job("go", "import sys; open(sys.argv[1], 'w')", "/volume/go", mounts=(on_shelf(),))
            bench.cluster.jobs.submit(go)
        seen.append(status.state)
        if not status.live:
            break
    assert seen[-1] == JobState.COMPLETED
    assert JobState.RUNNING in seen


def print_early_and_late(bench: Bench, early: str) -> None:
    """A job that prints an expression's value, and `late` once there is /volume/go."""
    code = (
        f"import sys, time, pathlib; print({early}, flush=True)\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)\nprint('late')"
    )
    bench.cluster.jobs.submit(bench.job("one", code, "/volume/go", mounts=(on_shelf(),)))


def test_logs_can_be_read_from_a_time_on(bench: Bench) -> None:
    bench.volume()
    print_early_and_late(bench, "'early'")
    bench.wait(lambda: "early" in bench.cluster.jobs.logs("one"))
    # Times are coarse: to the second on Kubernetes, to half a second and more here.
    since = bench.wait(lambda: None if list(bench.cluster.jobs.logs("one", now := datetime.now(UTC))) else now)
    bench.cluster.jobs.submit(bench.job("go", "import sys; open(sys.argv[1], 'w')", "/volume/go", mounts=(on_shelf(),)))
    bench.ended("one")
    assert list(bench.cluster.jobs.logs("one", since)) == ["late"]
    assert list(bench.cluster.jobs.logs("one")) == ["early", "late"]


def test_a_log_is_read_on_from_where_it_was(bench: Bench) -> None:
    bench.volume()
    print_early_and_late(bench, "'\\n'.join(f'early {n}' for n in range(2000))")
    bench.wait(lambda: "early 1999" in bench.cluster.jobs.logs("one"))
    log, end = bench.cluster.jobs.logs("one"), bench.cluster.jobs.logs("one", last=2)
    assert [len(list(log)), list(log), list(end), list(end)] == [2000, [], ["early 1998", "early 1999"], []]
    bench.cluster.jobs.submit(bench.job("go", "import sys; open(sys.argv[1], 'w')", "/volume/go", mounts=(on_shelf(),)))
    bench.ended("one")
    assert [list(log), list(end), list(log)] == [["late"], ["late"], []]
    assert list(bench.cluster.jobs.logs("one", last=0)) == []


def test_an_ended_job_can_be_forgotten_and_its_name_used_again(bench: Bench) -> None:
    first = bench.cluster.jobs.submit(bench.job("one"))
    bench.ended("one")
    bench.cluster.jobs.delete("one")
    bench.cluster.jobs.delete("one")
    assert bench.cluster.jobs.status(["one"]) == {}
    assert bench.cluster.jobs.submit(bench.job("one", request_hash="otherwise")).uid != first.uid


def test_a_live_job_is_not_forgotten(bench: Bench) -> None:
    bench.cluster.jobs.submit(bench.job("one", SLEEP))
    with pytest.raises(InUseError):
        bench.cluster.jobs.delete("one")


def test_the_capacity_is_all_there_is(bench: Bench) -> None:
    there, all_of_it = bench.cluster.capacity(), bench.capacity
    assert (there.cpus, there.memory_bytes) == (all_of_it.cpus, all_of_it.memory_bytes)
    assert there.gpus == {"h100": 2}

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from blocks.clusters.errors import InUseError, SlipwayError
from blocks.clusters.job import Cause, JobState
from blocks.clusters.local.files import try_lock, write_json
from blocks.clusters.local.identity import boot_id, identify
from tests.blocks.clusters.local.bench import SLEEP, LocalBench


def test_a_program_killed_with_9_failed_by_a_signal_and_names_the_usual_culprit(local: LocalBench) -> None:
    program = local.running("one")
    os.kill(program.pid, signal.SIGKILL)
    ended = local.ended("one")
    assert (ended.state, ended.cause, ended.exit_code) == (JobState.FAILED, Cause.SIGNAL, -9)
    assert "SIGKILL" in ended.reason and "out-of-memory" in ended.reason
    assert ended.last_lines == ("up",)


def test_a_child_killed_with_9_under_a_shell_names_the_usual_culprit_too(local: LocalBench) -> None:
    local.cluster.jobs.submit(local.job("one", command=("sh", "-c", "sh -c 'kill -9 $$'; exit $?")))
    ended = local.ended("one")
    assert (ended.state, ended.cause, ended.exit_code) == (JobState.FAILED, Cause.EXIT, 137)
    assert "SIGKILL" in ended.reason


def test_a_job_without_its_supervisor_is_live_while_its_program_lives(local: LocalBench) -> None:
    program = local.running("one")
    local.kill_supervisor("one")
    status = local.status("one")
    assert status.state == JobState.RUNNING
    assert "supervisor is gone" in status.reason
    os.kill(program.pid, signal.SIGKILL)
    ended = local.ended("one")
    assert (ended.state, ended.cause, ended.last_lines) == (JobState.LOST, Cause.LOST, ("up",))
    assert ended.cause.infrastructure


def test_a_job_whose_supervisor_and_program_were_both_killed_is_lost_and_never_started_again(local: LocalBench) -> None:
    program = local.running("one")
    local.kill_supervisor("one")
    os.kill(program.pid, signal.SIGKILL)
    assert local.ended("one").state == JobState.LOST
    assert local.cluster.jobs.submit(local.job("one", SLEEP)).state == JobState.LOST
    assert list(local.cluster.jobs.logs("one")) == ["up"]


def test_a_job_without_its_supervisor_can_be_stopped(local: LocalBench) -> None:
    program = local.running("one")
    local.kill_supervisor("one")
    stopped = local.cluster.jobs.stop("one")
    assert (stopped.state, stopped.cause) == (JobState.STOPPED, Cause.STOPPED)
    assert not program.lives


def test_a_job_without_its_supervisor_that_ignores_it_is_killed_with_its_children(local: LocalBench) -> None:
    code = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "print('up', child.pid, sep='\\n', flush=True)\nwhile True: time.sleep(1)"
    )
    program = local.running("one", code)
    child = local.wait(lambda: [line for line in local.cluster.jobs.logs("one") if line.isdigit()])[0]
    local.kill_supervisor("one")
    assert local.cluster.jobs.stop("one", grace_seconds=0.2).state == JobState.STOPPED
    assert not program.lives
    local.wait(lambda: gone(int(child)), "the child to be gone")


def test_what_a_program_leaves_behind_is_ended_with_it(local: LocalBench) -> None:
    code = (
        "import subprocess, sys\n"
        "for own in (False, True):\n"
        "    print(subprocess.Popen(['sleep', '600'], start_new_session=own).pid)"
    )
    local.cluster.jobs.submit(local.job("one", code))
    assert local.ended("one").state == JobState.COMPLETED
    for line in local.cluster.jobs.logs("one"):
        local.wait(lambda line=line: gone(int(line)), "the child to be gone")


def test_a_reused_pid_is_never_taken_for_the_job_nor_sent_a_signal(local: LocalBench) -> None:
    program = local.running("one")
    local.kill_supervisor("one")
    os.kill(program.pid, signal.SIGKILL)
    local.wait(lambda: not program.lives)
    stranger = local.elsewhere("print('up', flush=True); sys.stdin.read()")
    assert stranger.stdout and stranger.stdout.readline() == "up\n"
    pretend(local, "one", program._replace(pid=stranger.pid))
    assert local.status("one").state == JobState.LOST
    assert local.cluster.jobs.stop("one", grace_seconds=0).state == JobState.LOST
    assert stranger.poll() is None
    stranger.communicate("")
    assert stranger.returncode == 0


def test_a_job_of_an_earlier_boot_is_lost_even_if_pid_and_start_time_are_the_same(local: LocalBench) -> None:
    program = local.running("one")
    local.kill_supervisor("one")
    pretend(local, "one", program._replace(boot="an earlier boot"))
    assert local.status("one").state == JobState.LOST
    assert local.cluster.jobs.stop("one", grace_seconds=0).state == JobState.LOST
    assert program.lives
    os.kill(program.pid, signal.SIGKILL)


def test_a_supervisor_that_is_told_to_end_takes_its_job_with_it_and_says_evicted(local: LocalBench) -> None:
    program = local.running("one")
    supervisor = local.place("one").supervisor()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGTERM)
    ended = local.ended("one")
    assert (ended.state, ended.cause) == (JobState.FAILED, Cause.EVICTED)
    assert not program.lives


def test_a_submit_that_was_killed_before_the_supervisor_started_is_made_good_by_the_next(local: LocalBench) -> None:
    submitter = local.elsewhere(
        "import os, signal, blocks.clusters.local.jobs as jobs\n"
        "jobs.LocalJobs._start = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "cluster.jobs.submit(Job(name='one', request_hash='asked', command=('python', '-c', 'print(1)')))"
    )
    assert submitter.wait() == -signal.SIGKILL
    left = local.status("one")
    assert left.state == JobState.QUEUED
    assert "submit it again" in left.reason
    assert local.cluster.jobs.submit(local.job("one", "print(1)")).uid == left.uid
    assert local.ended("one").state == JobState.COMPLETED
    assert list(local.cluster.jobs.logs("one")) == ["1"]


def test_who_only_looks_at_a_job_for_long_does_not_keep_it_from_starting(local: LocalBench) -> None:
    killed = (
        "import os, signal, blocks.clusters.local.jobs as jobs\n"
        "jobs.LocalJobs._start = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    submit = "cluster.jobs.submit(Job(name='one', request_hash='asked', command=('python', '-c', 'print(1)')))"
    local.elsewhere(killed + submit).wait()
    lock = local.place("one").lock
    with lock.open("a") as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        submitter = local.elsewhere(submit)
        process = psutil.Process(submitter.pid)
        local.wait(lambda: str(lock) in {file.path for file in process.open_files()}, "it to ask for the lock")
        time.sleep(1)
    assert submitter.wait() == 0
    assert local.ended("one").state == JobState.COMPLETED


def test_a_job_that_was_never_started_can_be_stopped(local: LocalBench) -> None:
    submitter = local.elsewhere(
        "import os, signal, blocks.clusters.local.jobs as jobs\n"
        "jobs.LocalJobs._start = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "cluster.jobs.submit(Job(name='one', request_hash='asked', command=('python', '-c', 'print(1)')))"
    )
    submitter.wait()
    assert local.cluster.jobs.stop("one").state == JobState.STOPPED
    assert local.cluster.jobs.submit(local.job("one", "print(1)")).state == JobState.STOPPED


def test_a_second_supervisor_finds_the_job_taken(local: LocalBench) -> None:
    program = local.running("one")
    assert try_lock(local.place("one").lock) is None
    again = local.cluster.jobs.submit(local.job("one", SLEEP))
    assert again.state == JobState.RUNNING
    assert local.place("one").program() == program


def test_a_full_stop_request_reaches_a_job_from_any_process(local: LocalBench) -> None:
    program = local.running("one")
    stopper = local.elsewhere("print(cluster.jobs.stop('one').state)")
    assert stopper.communicate()[0] == "stopped\n"
    assert not program.lives


def test_a_second_stop_can_shorten_the_grace_time(local: LocalBench) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\n"
    local.running("one", code + "print('up', flush=True)\nwhile True: time.sleep(1)")
    patient = local.elsewhere("print(cluster.jobs.stop('one', grace_seconds=300).state)")
    local.wait(lambda: "no" in local.cluster.jobs.logs("one"))
    assert local.cluster.jobs.stop("one", grace_seconds=0).state == JobState.STOPPED
    assert patient.communicate()[0] == "stopped\n"


def test_an_end_is_written_once(local: LocalBench) -> None:
    local.cluster.jobs.submit(local.job("one"))
    ended = local.ended("one")
    assert not local.place("one").write_end({"state": "lost"})
    assert local.status("one") == ended


def test_an_ended_jobs_name_is_free_only_once_its_supervisor_has_cleaned_up(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.cluster.jobs.submit(local.job("one"))
    local.ended("one")
    place = local.place("one")
    cleaning = local.wait(lambda: try_lock(place.lock), "the supervisor to be gone")  # its place is taken by us
    with monkeypatch.context() as patch, pytest.raises(InUseError, match="scratch of job 'one'"):
        patch.setattr("blocks.clusters.local.jobs._CLEANING_SECONDS", 0.2)
        local.cluster.jobs.delete("one")
    deleter = local.elsewhere("print('ready', flush=True); cluster.jobs.delete('one')")
    assert deleter.stdout and deleter.stdout.readline() == "ready\n"
    assert local.status("one").state == JobState.COMPLETED
    os.close(cleaning)
    assert deleter.wait() == 0
    assert local.cluster.jobs.status(["one"]) == {}
    assert [path.name for path in place.directory.parent.iterdir()] == []


def test_a_thousand_ended_jobs_are_looked_at_without_starting_a_process(local: LocalBench) -> None:
    local.cluster.jobs.submit(local.job("one", labels={"run": "x"}))
    local.ended("one")
    place = local.place("one")
    submitted, end = place.read(), json.loads(place.end.read_text())
    assert submitted is not None
    for number in range(300):
        directory = place.directory.parent / f"old-{number}"
        directory.mkdir()
        write_json(directory / "job.json", {**submitted, "labels": {}})
        write_json(directory / "end.json", end)
    before = set(psutil.Process().children())
    assert len(local.cluster.jobs.find({})) == 301
    assert [s.name for s in local.cluster.jobs.find({"run": "x"})] == ["one"]
    assert set(psutil.Process().children()) <= before


def test_a_volume_delete_that_was_killed_is_finished_by_the_next(local: LocalBench) -> None:
    local.volume()
    deleter = local.elsewhere(
        "import os, signal, blocks.clusters.local.volumes as volumes\n"
        "volumes.remove_tree = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\ncluster.volumes.delete('shelf')"
    )
    assert deleter.wait() == -signal.SIGKILL
    assert local.cluster.volumes.get("shelf").status == "deleting"
    local.cluster.volumes.delete("shelf")
    assert local.cluster.volumes.list() == []
    assert list((local.root / "volumes" / "me").iterdir()) == []


def test_a_volume_create_that_was_killed_is_made_good_by_the_next(local: LocalBench) -> None:
    creator = local.elsewhere(
        "import os, signal, blocks.clusters.local.volumes as volumes\n"
        "volumes.write_json = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\ncluster.volumes.create('shelf', 2**30)"
    )
    assert creator.wait() == -signal.SIGKILL
    assert local.cluster.volumes.list() == []
    assert local.volume("shelf").name == "shelf"


def test_a_session_ends_with_the_process_that_opened_it(local: LocalBench) -> None:
    local.volume()
    person = local.elsewhere("print(cluster.sessions.open('shelf').id, flush=True); sys.stdin.read()")
    assert person.stdout
    session = person.stdout.readline().strip()
    assert [s.id for s in local.cluster.sessions.list()] == [session]
    try:
        local.cluster.volumes.delete("shelf")
        raise AssertionError("a person has it open")
    except InUseError:
        pass
    person.kill()
    person.wait()
    assert local.cluster.sessions.list() == []
    local.cluster.volumes.delete("shelf")


def test_an_identity_is_this_process_of_this_boot() -> None:
    me = identify(os.getpid())
    assert me.lives
    assert not me._replace(start="0").lives
    assert not me._replace(boot="another").lives
    assert me.boot == boot_id()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("kill -9 $$", "it was killed by SIGKILL"),
        ("exit 3", "it exited with code 3"),
        ("echo no such module. >&2; exit 1", "it exited with code 1: no such module"),
    ],
)
def test_a_supervisor_that_did_not_start_says_why(
    local: LocalBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    job = local.job("one", command=("true",))
    with monkeypatch.context() as patch, pytest.raises(SlipwayError) as said:
        patch.setattr(sys, "executable", str(python))
        local.cluster.jobs.submit(job)
    assert said.value.what == f"The supervisor of job 'one' did not start: {why}."
    local.cluster.jobs.submit(job)
    assert local.ended("one").state == JobState.COMPLETED


def test_a_line_without_an_end_is_read_in_pieces(local: LocalBench) -> None:
    local.cluster.jobs.submit(local.job("one", "import os\nfor _ in range(5): os.write(1, b'x' * 2**19)\nprint('end')"))
    local.ended("one")
    lines = list(local.cluster.jobs.logs("one"))
    assert "".join(lines) == "x" * 5 * 2**19 + "end" and max(map(len, lines)) == 2**20


CLOCK = """
from _bisect import *
import time
bisect, insort = bisect_right, insort_right
set_ = time.time
time.time = lambda: set_() + float(open({path!r}).read())
"""


@pytest.mark.parametrize("jump", [86400, -3600])
def test_a_clock_that_is_set_neither_ends_a_job_nor_delays_its_stop(
    local: LocalBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    set_clock(tmp_path, 0)
    (tmp_path / "bisect.py").write_text(CLOCK.format(path=str(tmp_path / "jump")))  # the supervisor imports it
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    program = local.running("one", deaf, deadline_seconds=600)
    set_clock(tmp_path, jump)
    (local.place("one").log).open("a").write("more\n")
    noted = local.place("one").log_times  # a line begins with the time by the supervisor's clock
    local.wait(lambda: abs(float(noted.read_text().split()[-2]) - time.time() - jump) < 600, "the supervisor to look")
    assert local.status("one").state == JobState.RUNNING and program.lives
    stopped = local.cluster.jobs.stop("one", grace_seconds=1)
    assert (stopped.state, stopped.cause, stopped.exit_code) == (JobState.STOPPED, Cause.STOPPED, -signal.SIGKILL)


def set_clock(folder: Path, jump: int) -> None:
    """As a whole: the supervisor reads it whenever it asks for the time."""
    (folder / "jump.new").write_text(str(jump))
    (folder / "jump.new").replace(folder / "jump")


def pretend(local: LocalBench, name: str, program: tuple[int, str, str]) -> None:
    """Change what is on record of a job's program."""
    state = local.place(name).state
    write_json(state, {**json.loads(state.read_text()), "program": program})


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True

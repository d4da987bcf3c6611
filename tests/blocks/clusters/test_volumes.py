import pytest

from blocks.clusters.errors import InUseError, NotFoundError, UsageError
from blocks.clusters.job import JobState
from blocks.clusters.port import Cluster
from blocks.clusters.volume import VolumeStatus
from tests.blocks.clusters.bench import GI, Bench, on_shelf


def test_a_created_volume_is_listed_with_all_that_people_want_to_know(bench: Bench) -> None:
    bench.volume("shelf", 2 * GI)
    bench.volume("attic", GI)
    attic, shelf = bench.cluster.volumes.list()
    assert (attic.name, shelf.name, shelf.size) == ("attic", "shelf", 2 * GI)
    assert (shelf.owner, shelf.cluster) == (bench.cluster.owner, bench.cluster.name)
    assert (shelf.status, shelf.used_by) == (VolumeStatus.READY, ())
    assert shelf.created_at.tzinfo is not None


def test_a_volume_outlives_the_process_that_created_it(bench: Bench) -> None:
    assert bench.elsewhere("cluster.volumes.create('shelf', 2**30)").wait() == 0
    assert bench.cluster.volumes.get("shelf").size == GI


def test_two_creates_of_one_name_make_one_volume(bench: Bench) -> None:
    code = (
        "print('ready', flush=True); sys.stdin.readline()\n"
        "try: cluster.volumes.create('shelf', int(sys.stdin.readline())); print('made')\n"
        "except ConflictError: print('conflict')"
    )
    creators = [bench.elsewhere(code) for _ in range(4)]
    for creator in creators:
        assert creator.stdout and creator.stdout.readline() == "ready\n"
    for number, creator in enumerate(creators, 1):
        assert creator.stdin
        creator.stdin.write(f"\n{number * GI}\n")
        creator.stdin.flush()
    answers = [creator.communicate()[0].strip() for creator in creators]
    assert sorted(answers) == ["conflict", "conflict", "conflict", "made"]
    assert bench.cluster.volumes.get("shelf").size == (answers.index("made") + 1) * GI


def test_a_missing_volume_is_an_error_that_names_those_there_are(bench: Bench) -> None:
    bench.volume("attic")
    with pytest.raises(NotFoundError, match="attic"):
        bench.cluster.volumes.get("shelf")
    with pytest.raises(NotFoundError):
        bench.cluster.volumes.grow("shelf", GI)
    with pytest.raises(NotFoundError):
        bench.cluster.volumes.delete("shelf")


@pytest.mark.parametrize(
    ("name", "size"), [("Shelf", GI), ("../shelf", GI), ("", GI), ("shelf", 0), ("shelf", 11 * 1024 * GI)]
)
def test_a_bad_name_or_size_is_refused(cluster: Cluster, name: str, size: int) -> None:
    with pytest.raises(UsageError):
        cluster.volumes.create(name, size)
    assert cluster.volumes.list() == []


def test_a_volume_grows_and_never_shrinks(bench: Bench) -> None:
    created = bench.volume("shelf", 2 * GI)
    volumes = bench.cluster.volumes
    assert volumes.grow("shelf", 3 * GI).size == 3 * GI
    assert volumes.grow("shelf", 3 * GI).size == 3 * GI
    with pytest.raises(UsageError, match="shrink"):
        volumes.grow("shelf", 2 * GI)
    with pytest.raises(UsageError, match="10Ti"):
        volumes.grow("shelf", 11 * 1024 * GI)
    assert volumes.get("shelf").size == 3 * GI
    assert volumes.get("shelf").created_at == created.created_at


def test_a_volume_that_a_live_job_mounts_is_not_deleted(bench: Bench) -> None:
    bench.volume()
    bench.cluster.jobs.submit(bench.job("reader", "import time; time.sleep(600)", mounts=(on_shelf(),)))
    with pytest.raises(InUseError, match="reader"):
        bench.cluster.volumes.delete("shelf")
    assert bench.cluster.volumes.get("shelf").used_by == ("job reader",)
    bench.cluster.jobs.stop("reader", grace_seconds=0)
    bench.cluster.volumes.delete("shelf")
    bench.wait(lambda: bench.cluster.volumes.list() == [])


def test_a_volume_that_a_person_has_open_is_not_deleted(bench: Bench) -> None:
    bench.volume()
    session = bench.cluster.sessions.open("shelf")
    with pytest.raises(InUseError, match=session.id):
        bench.cluster.volumes.delete("shelf")
    bench.cluster.sessions.stop(session.id)
    bench.cluster.volumes.delete("shelf")
    bench.wait(lambda: bench.cluster.volumes.list() == [])


def test_looking_beside_the_data_does_not_stand_in_the_way_of_a_delete(bench: Bench) -> None:
    bench.volume()
    bench.cluster.call("shelf", "runs.list", {})
    bench.cluster.volumes.delete("shelf")


def test_published_trees_can_be_deleted_and_the_name_used_again(bench: Bench) -> None:
    bench.volume()
    code = (
        "import os, sys; from pathlib import Path; d = Path(sys.argv[1]) / 'datasets/a/1'; d.mkdir(parents=True)\n"
        "(d / 'f').write_text('x'); (d / 'f').chmod(0o444); d.chmod(0o555); d.parent.chmod(0o555)"
    )
    bench.cluster.jobs.submit(bench.job("writer", code, "/volume", mounts=(on_shelf(),)))
    assert bench.ended("writer").state == JobState.COMPLETED
    bench.cluster.volumes.delete("shelf")
    bench.wait(lambda: bench.cluster.volumes.list() == [])
    bench.volume("shelf", 5 * GI)
    assert bench.cluster.volumes.get("shelf").size == 5 * GI


def test_a_session_is_listed_until_it_is_stopped(bench: Bench) -> None:
    bench.volume()
    session = bench.cluster.sessions.open("shelf", writable=False)
    assert bench.cluster.sessions.list() == [session]
    assert (session.volume, session.writable, session.internal) == ("shelf", False, False)
    bench.cluster.sessions.stop(session.id)
    assert bench.cluster.sessions.list() == []
    with pytest.raises(NotFoundError):
        bench.cluster.sessions.stop(session.id)
    with pytest.raises(NotFoundError):
        bench.cluster.sessions.open("attic")

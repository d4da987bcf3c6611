"""`slipway volumes create|list|grow|delete`."""

import subprocess
import sys

import pytest

from blocks.clusters.job import Job, Mount
from tests.flows.cli.conftest import Slipway


def test_a_volume_is_created_listed_grown_and_deleted(slipway: Slipway) -> None:
    made = slipway("volumes", "create", "research", "--size", "5Gi", "-o", "json").json
    assert (made["name"], made["size"], made["status"]) == ("research", 5 * 2**30, "ready")

    assert slipway("volumes", "grow", "research", "--size", "6Gi").code == 0
    assert slipway("volumes", "resize", "research", "--size", "7Gi").code == 0
    (listed,) = slipway("volumes", "list", "-o", "json").json
    assert {"name", "owner", "cluster", "size", "status", "used_by", "created_at"} <= listed.keys()
    assert listed["size"] == 7 * 2**30
    table = slipway("volumes", "list").out
    assert all(word in table for word in ("research", "me", "local", "7Gi", "ready", "now"))

    assert slipway("volumes", "delete", "research", "--yes").code == 0
    assert slipway("volumes", "list", "-o", "json").json == []


def test_volumes_have_1Ti_by_default(slipway: Slipway) -> None:
    assert slipway("volumes", "create", "research", "-o", "json").json["size"] == 2**40


def test_an_owner_has_its_own_volumes(slipway: Slipway) -> None:
    slipway("volumes", "create", "research", "--owner", "team-a")
    assert slipway("volumes", "list", "-o", "json").json == []
    assert [v["owner"] for v in slipway("volumes", "list", "--owner", "team-a", "-o", "json").json] == ["team-a"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Research", "capital letters"),
        ("my_volume", "characters other than"),
        ("a" * 64, "64 characters"),
        ("-research", "can not start with a hyphen"),
        ("research-", "starts or ends with a hyphen"),
        ("", "is empty"),
        ("Ü", "characters other than"),
        ("résumé", "characters other than"),
        ("../up", "characters other than"),
    ],
)
def test_a_bad_name_is_refused(slipway: Slipway, name: str, reason: str) -> None:
    slipway("volumes", "create", name).refused(2, reason)
    assert slipway("volumes", "list", "-o", "json").json == []


def test_a_name_with_a_hyphen_in_front_is_never_an_option(slipway: Slipway) -> None:
    slipway("volumes", "create", "--", "-research").refused(2, "starts or ends with a hyphen")
    assert slipway("volumes", "delete", "--research").code == 2
    assert slipway("volumes", "list", "-o", "json").json == []


@pytest.mark.parametrize("size", ["0", "-1Gi", "1TB", "11Ti", "0Gi", "1.5Ti", "", "10 Gi"])
def test_a_bad_size_is_refused(slipway: Slipway, size: str) -> None:
    slipway("volumes", "create", "research", "--size", size).refused(2, "size")
    assert slipway("volumes", "list", "-o", "json").json == []


def test_a_volume_never_shrinks(slipway: Slipway) -> None:
    slipway("volumes", "create", "research", "--size", "5Gi")
    slipway("volumes", "grow", "research", "--size", "4Gi").refused(2, "can not shrink")
    assert slipway("volumes", "list", "-o", "json").json[0]["size"] == 5 * 2**30


def test_a_volume_is_created_once(slipway: Slipway) -> None:
    slipway("volumes", "create", "research", "--size", "5Gi")
    slipway("volumes", "create", "research", "--size", "6Gi").refused(1, "exists, with 5Gi")


def test_a_missing_volume_is_named_with_those_there_are(slipway: Slipway) -> None:
    slipway("volumes", "create", "research")
    for words in (["grow", "serach", "--size", "2Ti"], ["delete", "serach", "--yes"], ["ls", "serach"]):
        slipway("volumes", *words).refused(1, "no volume 'serach'", "Did you mean 'research'?")
    slipway("volumes", "ls", "x").refused(1, "no volume 'x'", "Volumes there are: research.")


def test_deleting_asks_and_declining_changes_nothing(slipway: Slipway) -> None:
    slipway("volumes", "create", "research")
    declined = slipway("volumes", "delete", "research", stdin="n\n")
    assert declined.code == 0
    assert "Delete volume research of me on cluster local" in declined.err
    assert len(slipway("volumes", "list", "-o", "json").json) == 1
    assert slipway("volumes", "delete", "research", stdin="y\n").code == 0
    assert slipway("volumes", "list", "-o", "json").json == []


def test_deleting_without_anybody_to_ask_changes_nothing(slipway: Slipway) -> None:
    slipway("volumes", "create", "research")
    answer = slipway("volumes", "delete", "research")
    assert answer.code == 2
    assert "Say --yes" in answer.err
    assert len(slipway("volumes", "list", "-o", "json").json) == 1


def test_a_volume_in_use_is_not_deleted_and_the_job_is_named(slipway: Slipway) -> None:
    slipway("volumes", "create", "research")
    jobs = slipway.cluster.jobs
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    jobs.submit(Job(name="busy", request_hash="1", command=command, mounts=(Mount(volume="research"),), cpus=0.1))
    try:
        slipway("volumes", "delete", "research", "--yes").refused(1, "job busy")
        assert slipway("volumes", "list", "-o", "json").json[0]["used_by"] == ["job busy"]
        assert "job busy" in slipway("volumes", "list").out
    finally:
        jobs.stop("busy", grace_seconds=0)


def test_unknown_clusters_and_broken_settings_are_named(slipway: Slipway) -> None:
    slipway("volumes", "list", "--cluster", "lokal").refused(2, "no cluster 'lokal'", "'local'")
    slipway("volumes", "list", "--owner", "Team_A").refused(2, "owner name 'Team_A'")
    slipway.write("slipway.toml", '[clusters.local]\nroot = "state"\nrooot = "x"\n')
    slipway("volumes", "list").refused(2, "clusters.local.rooot", "did you mean root")
    slipway.write("slipway.toml", "[clusters\n")
    slipway("volumes", "list").refused(2, "slipway.toml", "line 1")


def test_unknown_commands_and_options_get_a_suggestion(slipway: Slipway) -> None:
    assert (mistyped := slipway("volumes", "delet", "x")).code == 2
    assert "Did you mean 'delete'?" in mistyped.err
    assert (unknown := slipway("volumes", "create", "x", "--sze", "1Gi")).code == 2
    assert "--size" in unknown.err
    assert slipway("volumes", "create").code == 2


def test_help_and_the_version_need_no_settings_and_import_nothing_heavy(slipway: Slipway) -> None:
    code = (  # a process of its own: this one has them all
        "import sys; from flows.cli.app import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([m for m in ('prefect', 'pydantic', 'rich', 'psutil') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "[]"
    assert slipway("--version").out.startswith("slipway")

import pytest

from blocks.clusters.errors import NotFoundError, ProgramError
from blocks.clusters.job import SecretRef
from blocks.clusters.port import Cluster
from tests.blocks.clusters.bench import Bench


def test_a_call_answers_with_the_programs_json(bench: Bench) -> None:
    bench.volume()
    assert bench.cluster.call("shelf", "runs.list", {})["runs"] == []


def test_a_refusal_comes_with_the_programs_own_words(bench: Bench) -> None:
    bench.volume()
    with pytest.raises(ProgramError, match=r"runs\.dance") as refusal:
        bench.cluster.call("shelf", "runs.dance", {})
    assert refusal.value.kind == "BadInputError"
    assert "runs.list" in refusal.value.remedy


def test_a_program_that_breaks_is_an_error_with_its_last_lines(bench: Bench) -> None:
    bench.volume()
    with pytest.raises(ProgramError, match="KeyError: 'run'"):
        bench.cluster.call("shelf", "runs.show", {})


def test_a_call_on_a_missing_volume_is_refused(cluster: Cluster) -> None:
    with pytest.raises(NotFoundError, match="shelf"):
        cluster.call("shelf", "runs.list", {})


def test_a_call_with_a_missing_secret_is_refused(bench: Bench) -> None:
    bench.volume()
    with pytest.raises(NotFoundError, match="HF_TOKEN_ABSENT"):
        bench.cluster.call("shelf", "runs.list", {}, secrets={"T": SecretRef(name="hub", key="HF_TOKEN_ABSENT")})


def test_a_program_can_be_called_without_a_volume(cluster: Cluster) -> None:
    with pytest.raises(ProgramError) as refusal:
        cluster.call(None, "runs.dance", {})
    assert refusal.value.kind == "BadInputError"


def test_a_stream_refuses_like_a_call(bench: Bench) -> None:
    bench.volume()
    with pytest.raises(ProgramError, match=r"runs\.dance"), bench.cluster.stream("shelf", "runs.dance", {}) as stream:
        stream.result()

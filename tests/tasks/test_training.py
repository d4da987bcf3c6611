import pytest

from tasks.runs.records import End
from tasks.training import RunFailedError


@pytest.mark.parametrize(
    ("begun", "again"), [(True, "continues from its newest complete checkpoint"), (False, "it has no checkpoint")]
)
def test_a_run_that_failed_says_what_asking_for_it_again_does(begun: bool, again: str) -> None:
    error = RunFailedError(
        "r", End(state="failed", cause="exit", reason="It broke.", last_lines=("a", "b")), begun=begun
    )
    assert again in str(error) and "ended as failed: It broke." in str(error) and "\n  b" in str(error)

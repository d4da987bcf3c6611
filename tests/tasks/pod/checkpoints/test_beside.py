"""What the steps beside it tell of a step: it is not complete before it has what they have."""

from pathlib import Path

from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.verdict import Report, Verdict
from tasks.pod.trainers.tiny.checkpoint import Progress, save_step
from tasks.pod.trainers.tiny.network import Sizes, initial
from tasks.pod.trainers.tiny.optimizer import AdamW
from tests.tasks.pod.checkpoints.synthetic import Files, accelerate, bridge, dcp_files, hf_single, prime_rl, torch_file


def write(step: Path, files: Files) -> None:
    for name, content in files:
        (step / name).parent.mkdir(parents=True, exist_ok=True)
        (step / name).write_bytes(content)


def verdicts(report: Report) -> list[Verdict]:
    return [c.verdict for c in report.checkpoints]


def test_an_rl_step_without_its_orchestrator(tmp_path: Path) -> None:
    def files(step: int) -> Files:
        progress = ("orchestrator/progress.pt", torch_file("p", {"step": step}))
        return [pair for pair in prime_rl(1) if pair[0] != progress[0]] + [progress]

    write(tmp_path / "checkpoints/step_10", files(10))
    write(tmp_path / "checkpoints/step_20", files(20)[:-1])
    report = find(tmp_path)
    assert verdicts(report) == [Verdict.COMPLETE, Verdict.INCOMPLETE]
    assert report.checkpoints[1].why == "orchestrator/progress.pt is missing: the orchestrator has not saved this step"


def test_the_first_rl_step_without_its_orchestrator_is_never_complete(tmp_path: Path) -> None:
    write(tmp_path / "checkpoints/step_10", prime_rl(1)[:-1])
    assert verdicts(find(tmp_path)) == [Verdict.UNKNOWN]
    assert verdicts(find(tmp_path, format="prime-rl-rl")) == [Verdict.INCOMPLETE]
    assert verdicts(find(tmp_path, format="prime-rl-sft")) == [Verdict.INCOMPLETE]


def test_a_step_of_an_own_loop_that_lacks_what_the_others_have(tmp_path: Path) -> None:
    extra = ("train_state.json", b"{}")
    write(tmp_path / "step_1", [*dcp_files(1), extra])
    write(tmp_path / "step_2", [*dcp_files(2), extra])
    write(tmp_path / "step_3", dcp_files(3))
    assert verdicts(find(tmp_path)) == [Verdict.COMPLETE, Verdict.COMPLETE, Verdict.UNKNOWN]


def test_fewer_ranks_than_beside_it_are_unknown(tmp_path: Path) -> None:
    ranks = [(f"random_states_{rank}.pkl", torch_file("r")) for rank in (1, 0)]
    body = [pair for pair in accelerate(1) if not pair[0].startswith("random")]
    write(tmp_path / "checkpoint_0", [*body, *ranks])
    write(tmp_path / "checkpoint_1", [*body, *ranks[1:]])
    assert verdicts(find(tmp_path)) == [Verdict.COMPLETE, Verdict.UNKNOWN]


def test_a_scaler_that_the_others_have_is_missed(tmp_path: Path) -> None:
    write(tmp_path / "checkpoint-7", [("scaler.pt", torch_file("scaler")), *hf_single(1)])
    state = ("trainer_state.json", b'{"global_step": 9}')
    write(tmp_path / "checkpoint-9", [pair for pair in hf_single(1) if pair[0] != state[0]] + [state])
    assert verdicts(find(tmp_path)) == [Verdict.COMPLETE, Verdict.UNKNOWN]


def test_a_bridge_step_is_not_taken_for_megatrons(tmp_path: Path) -> None:
    write(tmp_path / "iter_0000001", bridge(1))
    write(tmp_path / "iter_0000002", bridge(1)[:-2])
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("2")
    for deep in (False, True):
        assert verdicts(find(tmp_path, deep=deep)) == [Verdict.COMPLETE, Verdict.INCOMPLETE]


def test_what_the_tiny_trainer_itself_saves(tmp_path: Path) -> None:
    sizes = Sizes()
    optimizer = AdamW(sizes, 0.1, (0.9, 0.99), 0.0)
    for step in (5, 10, 10):
        save_step(tmp_path / "checkpoints", initial(sizes, 1), optimizer, Progress(step, 1, {}))
    for deep in (False, True):
        report = find(tmp_path, deep=deep)
        assert report.latest_complete == "checkpoints/step_10"
        assert [(c.step, c.format, c.verdict) for c in report.checkpoints] == [
            (5, "tiny", Verdict.COMPLETE),
            (10, "tiny", Verdict.COMPLETE),
        ]

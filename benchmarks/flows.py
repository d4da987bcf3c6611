"""What the orchestration benchmark measures, each in a process of its own, as a worker would start it.

`python -m benchmarks.flows bare TASKS | subprocess TASKS CONFIG | finetune ROOT HUB NAME`: the flow that people would
write without Slipway, and ours. The last line of output is the number of task runs.
"""

import subprocess
import sys

from prefect import flow, get_run_logger, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.runtime import flow_run

CONFIG = """
max_steps = 1
[model]
name = "slipway/tiny-lm"
[data]
name = "datasets/harbour"
batch_size = 1
seq_len = 8
"""


@task
def step(number: int) -> int:
    get_run_logger().info("step %d", number)
    return number


@task
def train_here(config: str) -> None:
    subprocess.run([sys.executable, "-m", "tasks.pod.trainers.tiny.program", "@", config], check=True)


@flow
def bare(tasks: int, config: str | None = None) -> int:
    for number in range(tasks - bool(config)):
        step(number)
    if config:
        train_here(config)
    return count()


def count() -> int:
    """Task runs of the flow run around this."""
    with get_client(sync_client=True) as client:
        return len(client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[flow_run.id]))))


def finetune(root: str, hub: str, name: str) -> int:
    from blocks.hub import HuggingFaceHub
    from blocks.local_cluster import LocalCluster
    from blocks.trainer import Trainer
    from deployments.stack import DEMO
    from flows.finetune import finetune as ours
    from tasks.stages.source import DatasetRequest

    state = ours(
        cluster=LocalCluster(root=root),
        hub=HuggingFaceHub(endpoint=hub),
        trainer=Trainer(kind="tiny"),
        config=CONFIG,
        dataset=DatasetRequest(name="harbour", source=str(DEMO / "harbour")),
        volume="bench",
        volume_size="1Gi",
        name=name,
        return_state=True,
    )
    assert state.is_completed(), state
    with get_client(sync_client=True) as client:
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
        return len(client.read_task_runs(flow_run_filter=wanted))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bare", tasks]:
            print(bare(int(tasks)))
        case ["subprocess", tasks, config]:
            print(bare(int(tasks), config))
        case ["finetune", root, hub, name]:
            print(finetune(root, hub, name))
        case _:
            sys.exit(__doc__)

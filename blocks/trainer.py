"""A saved trainer: its kind, image and resources."""

from typing import Any

from prefect.blocks.core import Block
from pydantic import Field

from blocks.clusters.job import SecretRef
from blocks.clusters.strict import Strict
from blocks.trainer_settings import Resources, TrainerSettings


class Trainer(Strict, Block):
    """What a team trains with."""

    _block_type_name = "Slipway trainer"
    _block_type_slug = "trainer"
    _description = "The trainer, its image, and what a run of it gets."

    kind: str = Field(
        title="Kind",
        description="Whose config it is: axolotl, command (any program), llama-factory, prime-rl, transformers (TRL "
        "and other scripts), or tiny (a real but tiny trainer, to try everything out).",
        json_schema_extra={"position": 0},
    )
    image: str | None = Field(
        default=None,
        title="Image",
        description="Container image of the trainer. Empty: Slipway's own.",
        json_schema_extra={"position": 1},
    )
    resources: Resources = Field(
        default=Resources(),
        title="Resources",
        description="What a run gets on each node.",
        json_schema_extra={"position": 2},
    )
    env: dict[str, str] = Field(
        default_factory=dict,
        title="Environment",
        description='Environment variables, such as {"WANDB_MODE": "offline"}; never a secret.',
        json_schema_extra={"position": 3},
    )
    secrets: dict[str, SecretRef] = Field(
        default_factory=dict,
        title="Secrets",
        description="Environment variables whose values the cluster looks up in its secrets when a job starts: "
        '{"WANDB_API_KEY": {"name": "wandb", "key": "api-key"}}.',
        json_schema_extra={"position": 4},
    )

    options: dict[str, Any] = Field(
        default_factory=dict,
        title="Options",
        description='Settings of its kind, such as {"program": "trl.scripts.sft"} for transformers.',
        json_schema_extra={"position": 5},
    )

    def settings(self) -> TrainerSettings:
        return TrainerSettings(
            kind=self.kind,
            image=self.image,
            resources=self.resources,
            env=self.env,
            secrets=self.secrets,
            options=self.options,
        )

"""What is to happen when something did: a section of slipway.toml. Free of Prefect."""

from typing import Any, Literal

from pydantic import Field, model_validator

from blocks.clusters.job import Frozen

Happening = Literal["checkpoint", "completed", "failed", "stopped", "lost", "model staged", "dataset staged", "sweep"]


class AutomationSettings(Frozen):
    """When an event happens, start a deployment or send a notification.

    Args:
        on: a checkpoint was completed; a run has completed, failed, was stopped or lost; a model or a dataset was
            staged; a sweep is over.
        run: which runs (models, datasets, sweeps): a name, or the beginning of names and a "*".
        volume: on which volume; None for any.
        step: only the checkpoint of this step.
        deployment: FLOW/NAME of what to start. fork/… gets the event's run, step and volume by itself.
        parameters: for it; text may have {{ event.payload.run }}, and .step, .volume, .path, .reason and so on.
        notify: TYPE/NAME of a saved notification block, such as slack-webhook/team.
        enabled: whether it is switched on.
    """

    on: Happening
    run: str = Field(default="*", pattern=r"^[\w./-]*\*?$", min_length=1)
    volume: str | None = None
    step: int | None = Field(default=None, ge=1)
    deployment: str | None = Field(default=None, pattern=r"^[^/]+/[^/]+$")
    parameters: dict[str, Any] = Field(default_factory=dict)
    notify: str | None = Field(default=None, pattern=r"^[^/]+/[^/]+$")
    enabled: bool = True

    @model_validator(mode="after")
    def _does_one_thing(self) -> "AutomationSettings":
        if (self.deployment is None) == (self.notify is None):
            raise ValueError("say one of deployment and notify")
        if self.step is not None and self.on != "checkpoint":
            raise ValueError("step is for checkpoints")
        if self.parameters and self.deployment is None:
            raise ValueError("parameters are for a deployment")
        return self

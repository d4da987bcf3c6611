"""The options that many commands share. Imports nothing but Typer, so that `slipway --help` answers at once."""

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


ClusterName = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="A cluster of slipway.toml. [default: the default one]")
]
Owner = Annotated[str | None, typer.Option(metavar="NAME", help="Whose volumes. [default: the settings' own]")]
OutputFormat = Annotated[Output, typer.Option("--output", "-o", help="For people, or for programs.")]
VolumeName = Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and hyphens.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run's name.")]
OfVolume = Annotated[
    str | None,
    typer.Option("--volume", metavar="NAME", help="The volume of the run. [default: the one that has it]"),
]
HubName = Annotated[
    str | None, typer.Option("--hub", metavar="NAME", help="A hub of slipway.toml. [default: the default one]")
]
VolumeSize = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Of a volume that has to be created, such as 500Gi; an existing one is left."),
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the config; may be repeated.")
]
BaseModel = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="ORG/NAME[@REV] or /volume/PATH, in place of the config's."),
]
NewRun = Annotated[
    str | None,
    typer.Option("--name", metavar="RUN", help="Name of the new run. [default: made up]"),
]


class Placement(StrEnum):
    VOLUME = "volume"
    HYDRATE = "hydrate"
    NODE = "node"


WeightsFrom = Annotated[
    Placement,
    typer.Option(
        "--weights",
        help="Where weights are read: in place, from a copy in scratch, or from the node's cache of copies.",
    ),
]
WeightsAsParentFrom = Annotated[
    Placement | None,
    typer.Option("--weights", help="Where weights are read, as with train. [default: where RUN reads them]"),
]
WeightsFallback = Annotated[
    bool, typer.Option("--weights-fallback", help="Read them in place where there is no room for a copy.")
]
WeightsSha256 = Annotated[bool, typer.Option("--weights-sha256", help="Prove copies by sha256 too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop there.")]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust", metavar="PATH", help="Take a checkpoint that can not be proven, such as checkpoints/step_40."
    ),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return as soon as the run's job is submitted.")]

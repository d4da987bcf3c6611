"""Weights of a team's own, as models/NAME: staged from a folder or a bucket, listed, taken away."""

import time
from typing import Any

from tasks.pod import records, trash, weights
from tasks.pod.area import clear, staging_area
from tasks.pod.catalogue import refuse_if_used, use, uses
from tasks.pod.errors import BadInputError, NotThereError
from tasks.pod.layout import Layout, part
from tasks.pod.origins import origin_of
from tasks.pod.progress import Progress
from tasks.pod.publish import freeze
from tasks.pod.staging import weights_identity


def stage(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Copy or download weights unless they are there, prove them complete, and publish them. Run as a job.

    Args:
        arguments: "name"; "source" as `tasks.pod.datasets.stage` takes it, but for a Hub's.

    Returns:
        As `state`.

    Raises:
        BadInputError: the source is no directory of complete Hugging Face weights, or the name is taken.
        NotThereError, NoSpaceError, ChangedError, AccessError, UnreachableError.
    """
    name, origin = part("model name", arguments["name"]), origin_of(layout, arguments["source"])
    final, record = layout.own_weights(name), layout.own_weights_record(name)
    if wrong := weights.refusal({path.partition("/")[0] for path in origin.files}, "the source"):
        raise BadInputError(f"The source holds no weights: {wrong[0]}", wrong[1])
    with staging_area(layout, weights_identity(name)) as area:
        there = records.read_if_there(record)
        if final.exists():
            if there is None or there["source"] != origin.record:
                remedy = f"Name another, or take it away: slipway models remove /volume/{layout.relative(final)}."
                raise BadInputError(f"There is a models/{name} already, which came from elsewhere.", remedy)
            return state(layout, {"name": name})
        tree = area / "tree"
        with Progress(area, f"weights {name!r}", sum(origin.files.values()), len(origin.files)) as progress:
            proofs = origin.bring(area, tree, progress)
        found = weights.inspect(layout, {"path": layout.relative(tree)})
        if not found["ok"]:
            clear(area)
            raise BadInputError(f"The source holds no complete model: {found['why']}", found["remedy"])
        files = {path: proof.sha256 for path, proof in sorted(proofs.items())}
        records.replace(record, {"source": origin.record, "sha256": files, "staged_at": time.time()})
        freeze(tree, final)
        clear(area)
    return state(layout, {"name": name})


def state(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """What is at models/NAME: "staged" (complete weights are there), "path", "why", "bytes", "files" (their number)."""
    path = layout.own_weights(part("model name", arguments["name"]))
    found = weights.inspect(layout, {"path": layout.relative(path)})
    files = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
    return {
        "staged": found["ok"],
        "path": layout.relative(path),
        "why": found["why"],
        "bytes": sum(files),
        "files": len(files),
    }


def list_weights(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every directory in models/, whoever put it there: "weights", as `state` has them, each with "name", and with what
    `tasks.pod.catalogue.use` says of it."""
    home, used = layout.own_weights("x").parent, uses(layout, "weights")
    found = sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
    return {
        "weights": [
            {"name": path.name} | state(layout, {"name": path.name}) | use(layout, layout.relative(path), used)
            for path in found
        ]
    }


def remove(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Take models/NAME away.

    Args:
        arguments: "name", "over" (runs that have ended although no end is on record).

    Returns, Raises: as `tasks.pod.catalogue.remove_model`.
    """
    name = part("model name", arguments["name"])
    path = layout.own_weights(name)
    with staging_area(layout, weights_identity(name)):
        if not path.is_dir():
            raise NotThereError(f"There is no models/{name} on this volume.", "`slipway models` lists what is there.")
        refuse_if_used(layout, "weights", layout.relative(path), set(arguments.get("over") or ()))
        size, freed = state(layout, {"name": name})["bytes"], trash.Links().free(path)
        trash.take_away(layout, path)
        layout.own_weights_record(name).unlink(missing_ok=True)
    return {"path": layout.relative(path), "bytes": size, "freed": freed}

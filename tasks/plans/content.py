"""Whether a trainer can read what is in a dataset. Pure."""

from collections import Counter
from typing import Any

from tasks.pod.trainers.adapter import Needs

_MODULES = {"jsonl": "json", "json": "json", "csv": "csv", "parquet": "parquet"}


def misfit(content: dict[str, Any], needs: Needs) -> str:
    """Why a trainer can not train on it, or "".

    Args:
        content: as `tasks.pod.contents` found it.
    """
    formats = content["formats"]
    readable = [name for name in needs.formats or _main(formats) if name in formats]
    if needs.formats and not readable:
        there = ", ".join(f"{found['files']} {name}" for name, found in formats.items()) or "no files"
        return f"it has {there}; the trainer reads {' and '.join(needs.formats)} files"
    if not needs.columns:
        return ""
    for name in readable:
        found = formats[name]
        kinds, columns = set(found["kinds"]), set(found["columns"])
        fits = kinds <= {"+".join(wanted) for wanted in needs.columns} if kinds else False
        if not fits and not any(set(wanted) <= columns for wanted in needs.columns):
            shown = ", ".join(sorted(columns)) or "none that every row has"
            wanted = ", or ".join(" and ".join(names) for names in needs.columns)
            return f"its columns are {shown}; the trainer needs {wanted}"
    return ""


def _main(formats: dict[str, Any]) -> list[str]:
    """The formats that `datasets.load_dataset` takes of a directory: those of the kind that most files are of."""
    files, rows = Counter[str](), Counter[str]()
    for name, found in formats.items():
        if module := _MODULES.get(name.partition(".")[0]):
            files[module] += found["files"]
            rows[module] += found["rows"]
    module = max(files, key=lambda kind: (files[kind], rows[kind]), default="")
    chosen = [name for name in formats if _MODULES.get(name.partition(".")[0]) == module]
    lines = [name for name in chosen if name.startswith("jsonl")]
    return lines or chosen  # beside lines, other JSON most likely describes them


def describe(content: dict[str, Any]) -> str:
    """What was found in a dataset, in a few words: "1 jsonl file with 120 rows of messages"."""
    told = []
    for name, found in content["formats"].items():
        files = f"{found['files']} {name} file{'s' if found['files'] != 1 else ''}"
        if name == "other":
            told.append(files)
            continue
        if not found["rows"]:
            told.append(f"{files} without rows")
            continue
        what = ", ".join(found["kinds"]) or ", ".join(found["columns"]) or "no columns that all have"
        told.append(f"{files} with {found['rows']} row{'s' if found['rows'] != 1 else ''} of {what}")
    return "; ".join(told) or "no files"

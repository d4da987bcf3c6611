"""The files that huggingface_hub keeps beside its snapshots, in its own format: trees, refs, the cache tag.

Temporary files go through the staging area: huggingface_hub takes all that lies in its directories for its own, and one
left in `refs/` makes it skip the whole repository. Formats as in huggingface_hub 2.4.0 (`_tree_cache.py`,
`utils/_cache_manager.py`).
"""

import json
from pathlib import Path

from tasks.pod.files import File
from tasks.pod.text import replace_text

_CACHE_TAG = """Signature: 8a477f597d28d172789f06886806bc55
# This directory holds staged snapshots of Hugging Face repositories.
# For information about cache directory tags, see:
#	https://bford.info/cachedir/
"""


def prepare_cache(hub: Path, snapshots: Path, area: Path) -> None:
    """Make the directories of a repository, and mark the cache as one (backup tools leave it out)."""
    snapshots.mkdir(parents=True, exist_ok=True)
    tag = hub / "CACHEDIR.TAG"
    if not tag.exists():
        replace_text(tag, _CACHE_TAG, by_way_of=area)


def write_tree(repo: Path, commit: str, files: list[File], area: Path) -> None:
    """Write the listing of a commit, without which an offline reader does not know that a snapshot is complete."""
    entries = {}
    for file in sorted(files, key=lambda file: file.path):
        entry: dict[str, int | str] = {"size": file.size, "blob_id": file.git_sha1 or ""}
        if file.sha256:
            entry |= {"lfs_sha256": file.sha256, "lfs_size": file.size}
        if file.xet_hash:
            entry |= {"xet_hash": file.xet_hash}
        entries[file.path] = entry
    tree = json.dumps({"format_version": 1, "files": entries}, indent=1)
    replace_text(repo / "trees" / f"{commit}.json", tree, by_way_of=area)


def name_revision(repo: Path, commit: str, revision: str | None, area: Path) -> None:
    """Let refs name a snapshot: the branch it was asked for by, and one of ours.

    `hf cache prune` removes snapshots without a ref; a branch moves on, so each has a ref of its own as well.
    """
    names = [f"slipway/{commit}"]
    if revision and revision != commit:
        names.append(revision)
    for name in names:
        path = repo / "refs" / name
        if not (path.is_file() and path.read_text(encoding="utf-8") == commit):
            replace_text(path, commit, by_way_of=area)


def refs_of(repo: Path, commit: str) -> list[str]:
    """The names under which people asked for a commit."""
    refs = repo / "refs"
    return sorted(
        path.relative_to(refs).as_posix()
        for path in refs.glob("**/*")
        if path.is_file()
        and not path.name.startswith(".")
        and not path.relative_to(refs).is_relative_to("slipway")
        and path.read_text(encoding="utf-8") == commit
    )

"""Turns a branch into a commit, once, and says which files there are, with sizes and hashes, and that we may read."""

import re
from typing import TYPE_CHECKING, Any

from tasks.pod.errors import NotThereError
from tasks.pod.files import check_path
from tasks.pod.hub import TIMEOUT, Source, ask, endpoint, source
from tasks.pod.layout import Layout

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile


_PATIENCE = 20.0
"""Seconds to wait where the Hub limits requests: somebody waits for the plan, and can ask again."""


def resolve(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Look a repository up on the Hub; downloads nothing and leaves the volume alone.

    Args:
        layout: not used.
        arguments: "repo_type" ("model" or "dataset"), "repo", "revision" (branch, tag or commit; default "main").

    Returns:
        "commit" (40-hex), "revision" (as asked), "files" ({"path", "size" in bytes, "sha256" or null, "git_sha1"}, and
        "xet_hash" where the Hub offers it; "git_sha1" of a file with a sha256 is that of its LFS pointer), "bytes".

    Raises:
        NotThereError: no such repository, revision, or files in it.
        AccessError: gated, private, or a token that is not accepted.
        UnreachableError: the Hub did not answer for about ten seconds, asks to wait longer than twenty, or is
            none.
    """
    asked = source(arguments["repo_type"], arguments["repo"], arguments.get("revision") or "main")
    commit = ask(asked, lambda api: _commit(api, asked), rate_limit_patience=_PATIENCE)
    pinned = source(asked.repo_type, asked.repo, commit)
    files = ask(asked, lambda api: _files(api, pinned), rate_limit_patience=_PATIENCE)
    if not files:
        raise NotThereError(f"The {asked} has no files at {commit}.", "Name a revision that has some.")
    ask(asked, lambda api: _prove_access(api, pinned, files), rate_limit_patience=_PATIENCE)
    return {
        "commit": commit,
        "revision": asked.revision,
        "files": files,
        "bytes": sum(file["size"] for file in files),
    }


def _commit(api: "HfApi", asked: Source) -> str:
    found = api.repo_info(asked.repo, repo_type=asked.repo_type, revision=asked.revision, timeout=TIMEOUT)
    if not found.sha or not re.fullmatch("[0-9a-f]{40}", found.sha):
        raise NotThereError(
            f"The Hub at {endpoint()} names no commit for the {asked}.",
            "Check the hub's endpoint (slipway.toml, or HF_ENDPOINT).",
        )
    return found.sha


def _files(api: "HfApi", pinned: Source) -> list[dict[str, Any]]:
    from huggingface_hub.hf_api import RepoFile

    listed = api.list_repo_tree(pinned.repo, recursive=True, revision=pinned.revision, repo_type=pinned.repo_type)
    files = [_as_json(entry) for entry in listed if isinstance(entry, RepoFile)]
    return sorted(files, key=lambda file: file["path"])


def _as_json(entry: "RepoFile") -> dict[str, Any]:
    check_path(entry.path)
    size = entry.lfs.size if entry.lfs else entry.size
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"{entry.path} has no size")
    file: dict[str, Any] = {
        "path": entry.path,
        "size": size,
        "sha256": entry.lfs.sha256 if entry.lfs else None,
        "git_sha1": entry.blob_id,
    }
    if entry.xet_hash:
        file["xet_hash"] = entry.xet_hash
    return file


def _prove_access(api: "HfApi", pinned: Source, files: list[dict[str, Any]]) -> None:
    # a gated repository shows its tree to everybody; only a request for a file tells whether it can be had
    largest = max(files, key=lambda file: file["size"])["path"]
    from huggingface_hub import hf_hub_url

    url = hf_hub_url(pinned.repo, largest, repo_type=pinned.repo_type, revision=pinned.revision, endpoint=endpoint())
    api.get_hf_file_metadata(url=url, timeout=TIMEOUT)

"""A writer of the tiny trainer's checkpoints, in its order, for tests that tear them."""

import hashlib
import json
from pathlib import Path


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def tiny_files(step: int) -> dict[str, bytes]:
    """File name to bytes, in the order of writing."""
    weights = bytes((step + i) % 251 + 1 for i in range(256))
    files = {
        "model.safetensors": safetensors({"w": ("F32", [8, 8], weights)}),
        "optimizer.safetensors": safetensors({"m": ("F32", [8, 8], weights[::-1])}),
        "state.json": json.dumps({"step": step, "tokens": step * 100}).encode(),
    }
    named = {n: {"size": len(b), "sha256": hashlib.sha256(b).hexdigest()} for n, b in files.items()}
    return {**files, "complete.json": json.dumps({"step": step, "format": "tiny", "files": named}).encode()}


def write_tiny(directory: Path, step: int) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "complete.json").unlink(missing_ok=True)
    for name, content in tiny_files(step).items():
        (directory / name).write_bytes(content)
    return directory

"""Make a container image archive from layers (plain tars), without a container engine.

`ctr -n k8s.io images import` loads it; pods use it with imagePullPolicy Never or IfNotPresent.
"""

import argparse
import hashlib
import io
import json
import tarfile

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("archive")
    parser.add_argument("layers", nargs="+")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--path", default="", help="more of it, in front")
    parser.add_argument("--workdir", default="/")
    parser.add_argument("--cmd", nargs="+", default=["/bin/sh"])
    options = parser.parse_args()

    digests = []
    for layer in options.layers:
        with open(layer, "rb") as content:  # noqa: PTH123 - a script of its own
            digests.append(hashlib.file_digest(content, "sha256").hexdigest())
    path = f"PATH={options.path}:{PATH}" if options.path else f"PATH={PATH}"
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": [path, *options.env], "Cmd": options.cmd, "WorkingDir": options.workdir},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    ).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_names = [f"{digest}/layer.tar" for digest in digests]
    manifest = [{"Config": config_name, "RepoTags": [options.name], "Layers": layer_names}]
    with tarfile.open(options.archive, "w") as archive:
        for name, text in ((config_name, config), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
        for layer, name in zip(options.layers, layer_names, strict=True):
            archive.add(layer, name)


if __name__ == "__main__":
    main()

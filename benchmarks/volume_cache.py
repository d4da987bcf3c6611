"""RunPod's VolumeCache as a command: `python volume_cache.py SITE_PACKAGES sync|hydrate VOLUME DIRECTORY`.

It is loaded without its package, whose import takes a second and is no part of a copy.
"""

import sys
import types
from pathlib import Path

SITE, WHAT, VOLUME, DIRECTORY = sys.argv[1:]

sys.path.append(SITE)
for name in ("runpod", "runpod.serverless", "runpod.serverless.modules", "runpod.serverless.utils"):
    package = types.ModuleType(name)
    package.__path__ = [str(Path(SITE, *name.split(".")))]
    sys.modules[name] = package

from runpod.serverless.utils.rp_volume_cache import VolumeCache  # type: ignore[import-not-found] # noqa: E402

cache = VolumeCache([DIRECTORY], namespace="bench", volume_path=VOLUME, best_effort=False)
if WHAT == "sync":
    cache.sync(background=False)
else:
    print(cache.hydrate())

"""A headless Chromium: the system's, else the one that Playwright has installed."""

import os
import shutil

from playwright.sync_api import Browser, Playwright

_QUIET = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def launch(playwright: Playwright) -> Browser:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    sandbox = () if os.geteuid() else ("--no-sandbox",)  # root has none
    return playwright.chromium.launch(executable_path=found, args=[*_QUIET, *sandbox])

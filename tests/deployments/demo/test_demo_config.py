"""The demo's config is one that its trainer accepts and learns from."""

from pathlib import Path

import deployments.demo
from deployments.demo.assets import DATASET, REPO
from tasks.pod.trainers.table import adapter


def test_the_demo_config_has_no_problems_and_asks_for_the_demos_assets():
    tiny = adapter("tiny")
    config = tiny.parse((Path(deployments.demo.__file__).parent / "finetune.toml").read_text())
    assert tiny.problems(config) == []
    needs = tiny.needs(config)
    assert (needs.model, needs.dataset, needs.max_steps) == (REPO, f"datasets/{DATASET}", 60)
    assert config["volume"] == "research"

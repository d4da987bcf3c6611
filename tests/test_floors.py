"""The floors of the house: imports only go down, what runs beside the data stands alone, modules stay small."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
FLOORS = ("blocks", "tasks", "flows")
ROOMS = (*FLOORS, "deployments")
MODULES = sorted(path for room in ROOMS for path in (PROJECT / room).rglob("*.py"))
LONGEST = 400

NOT_FROM = {
    "tasks/pod/": ("prefect", "kubernetes", "blocks", "flows", "deployments"),
    "blocks/clusters/": ("prefect", "tasks", "flows", "deployments"),
    "blocks/": ("tasks", "flows", "deployments"),
    "tasks/": ("flows", "deployments"),
    "deployments/": ("flows",),
}
"""Where → what no module there imports, early or late."""

ONLY_THE_COMMAND_LINE = "flows/cli/"
"""It alone of the flows asks for what stands beside the house: it starts servers and registers blocks."""


def name_of(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


def imports(path: Path) -> Iterator[str]:
    """First parts of every module that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            yield node.module.split(".")[0]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_only_go_down(path: Path) -> None:
    name = name_of(path)
    forbidden = {part for place, parts in NOT_FROM.items() if name.startswith(place) for part in parts}
    if name.startswith("flows/") and not name.startswith(ONLY_THE_COMMAND_LINE):
        forbidden.add("deployments")
    assert not forbidden & set(imports(path))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_short_and_say_what_they_are_for(path: Path) -> None:
    text = path.read_text()
    if path.name == "__init__.py":
        assert text == "", "a room is entered without the house: keep it empty"
        return
    assert text.count("\n") <= LONGEST
    assert ast.get_docstring(ast.parse(text))


def test_every_floor_is_there() -> None:
    assert {name_of(path).split("/")[0] for path in MODULES} == set(ROOMS)


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("from flows.cli.app import app; import typer; typer.main.get_command(app)", "prefect pydantic kubernetes"),
        ("import tasks.pod.program", "prefect pydantic kubernetes numpy huggingface_hub"),
        ("import blocks.clusters.port, blocks.clusters.local.cluster", "prefect kubernetes"),
    ],
    ids=["slipway --help", "a program beside the data", "a cluster"],
)
def test_heavy_things_are_imported_late(code: str, heavy: str) -> None:
    ask = f"import sys; {code}; print(*sorted({{name.split('.')[0] for name in sys.modules}} & {set(heavy.split())!r}))"
    done = subprocess.run([sys.executable, "-c", ask], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_help_is_answered_without_prefect_and_pydantic() -> None:
    code = (
        "import sys\nfrom flows.cli.app import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "assert not {'prefect', 'pydantic'} & set(sys.modules), 'imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "volumes" in done.stdout

"""Links of the pages that are read where they lie; `make docs` checks those below docs/ among each other."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
PAGES = sorted((*PROJECT.glob("*.md"), *PROJECT.glob("docs/*.md")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    local = [link.split("#")[0] for link in links if not re.match(r"https?://|#", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []

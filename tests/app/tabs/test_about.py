"""The documents that the About tab shows, read from the repository."""

import re
from pathlib import Path
from typing import Any

import pytest

from app.tabs import about

CARD = """---
license: apache-2.0
---

# small

Made [here](../x.md), see [the paper](https://arxiv.org/abs/2604.07023). ![a plot](plot.png)
"""


def test_a_card_loses_what_the_page_lacks(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(CARD)
    assert about.cards({"small": str(tmp_path)}) == {
        "small": "Made here, see [the paper](https://arxiv.org/abs/2604.07023). a plot"
    }


def test_missing_cards_are_left_out(tmp_path: Path) -> None:
    assert about.cards({"hub": "somebody/model", "a\0b": "a\0b", "none": str(tmp_path)}) == {}


def test_sections_of_the_readme_are_found() -> None:
    assert "chats.jsonl" in about.section("README.md", "Your own checkpoint")
    assert "2604.07023" in about.section("README.md", "How to cite")
    assert about.section("README.md", "No such heading") == ""
    assert about.document("docs/no-such-file.md") == ""


@pytest.mark.browser
def test_the_details_of_a_claim_are_folded(site: Any, visit: Any, open_tab: Any) -> None:
    tab = visit(site.url)
    open_tab(tab, "about")
    claims = tab.locator("#about-claims")
    claims.locator("summary").first.wait_for()
    assert claims.locator("details", has=tab.locator("summary", has_text=re.compile(r"^\d+\. "))).count() == 12
    rule = claims.locator("details p", has_text="Rule: Each MARS model").first
    assert not rule.is_visible()
    claims.locator("summary", has_text=re.compile(r"^1\. ")).click()
    assert rule.is_visible()
    assert claims.locator("details[open] table").count() == 3, "the tiny models, two of the real one"

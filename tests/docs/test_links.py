"""Every link inside the documentation leads somewhere, and every page can be reached from the README."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page, pages, read

each_page = pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)


@each_page
def test_every_internal_link_and_anchor_resolves(page: Page):
    for link in page.links():
        if "://" not in link:
            path, _, anchor = link.partition("#")
            target = (page.path.parent / path).resolve() if path else page.path
            assert target.exists(), f"{page.name}: {link} leads nowhere"
            assert target.is_relative_to(ROOT), f"{page.name}: {link} leads out of the project"
            assert not anchor or anchor in read(target).anchors(), f"{page.name}: {link} has no such heading"


@each_page
def test_external_links_are_encrypted(page: Page):
    assert [link for link in page.links() if "://" in link and not link.startswith("https://")] == []


@each_page
def test_a_page_has_one_title(page: Page):
    assert [heading.level for heading in page.headings()].count(1) == 1


def test_every_page_can_be_reached_from_the_readme():
    seen: set[Path] = set()
    open_ = [ROOT / "README.md"]
    while open_:
        path = open_.pop()
        if path.suffix == ".md" and path not in seen:
            seen.add(path)
            open_ += [
                (path.parent / link.partition("#")[0]).resolve() for link in read(path).links() if "://" not in link
            ]
    assert {page.path for page in pages()} <= seen

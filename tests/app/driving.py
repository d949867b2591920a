"""What tests do to a page in a browser: choose a pace, run, wait for the end, and read its address."""

from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page


def set_pace(tab: Page, name: str) -> None:
    tab.locator("#prompt textarea").blur()  # a long prompt lies over the settings while it is edited
    tab.locator("#pace label", has_text=name).click()


def begin(tab: Page, pace: str = "Real time") -> None:
    """Press Run; what was over before is gone afterwards."""
    set_pace(tab, pace)
    before = tab.get_attribute(".lens-stage", "data-run")
    tab.click("#run")
    tab.wait_for_selector(f".lens-stage:not([data-run='{before}'])")


def finish(tab: Page, state: str = "done") -> None:
    tab.wait_for_selector(f".lens-stage[data-state={state}]")
    tab.wait_for_selector("#run:enabled")


def run(tab: Page) -> None:
    begin(tab)
    finish(tab)


def choose(tab: Page, control: str, option: str) -> None:
    """One of a list's options, by its whole name."""
    tab.click(f"#{control} input")
    tab.get_by_role("option", name=option, exact=True).click()
    tab.wait_for_selector("[role=option]", state="detached")  # else the next list stands beside this one


def selected(tab: Page) -> str | None:
    """The tab of the page that is open."""
    return tab.get_attribute("#tabs [role=tab][aria-selected=true]", "data-tab-id")


def said(tab: Page) -> dict[str, str]:
    """What stands in the address."""
    return {name: values[-1] for name, values in parse_qs(urlsplit(tab.url).query).items()}


def wait_said(page: Page, /, **expected: str) -> None:
    """Wait until this is all that the address says."""
    page.wait_for_function(
        """expected => {
            const said = Object.fromEntries(new URLSearchParams(location.search));
            return JSON.stringify(Object.entries(said).sort()) === JSON.stringify(Object.entries(expected).sort());
        }""",
        arg=expected,
    )

"""The dashboard in a real browser: by mouse, by keyboard, on a phone, and what it may load."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from .browsers import launch
from .deployed import Deployment
from .installed import HERE, npm_packages

DOCUMENTS = [
    {
        "id": "types/tuple",
        "title": "Tuples",
        "body": "A tuple is an immutable sequence. <b>Not bold</b>",
        "tags": ["types"],
        "metadata": {"chapter": "types", "words": 6, "draft": False, "author": "guido"},
    },
    {
        "id": "syntax/walrus",
        "title": "The walrus",
        "body": "The walrus operator assigns within an expression.",
        "tags": ["syntax"],
        "metadata": {"chapter": "syntax", "words": 70, "draft": True, "author": "tim"},
    },
]
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def key(deployment: Deployment) -> str:
    with deployment.client() as client:
        client.post("/v1/ingest/batch", json={"documents": DOCUMENTS}).raise_for_status()
    return deployment.key("read")


@pytest.fixture
def page(browser: Browser, deployment: Deployment) -> Iterator[Page]:
    """The page, not connected; whatever it complains about in the console fails the test."""
    opened = browser.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(deployment.url)
    yield opened
    opened.close()
    assert complaints == []


@pytest.fixture
def connected(page: Page, key: str) -> Page:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("heading", name="Search")).to_be_visible()
    return page


def search(page: Page, query: str) -> list[str]:
    page.get_by_label("What are you looking for?").fill(query)
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#found")).to_have_text(re.compile("found"))
    return page.locator("#hits h3").all_text_contents()


def test_it_shows_the_state_and_what_was_written_last(connected: Page) -> None:
    expect(connected.get_by_role("status").first).to_have_text(re.compile("ok|fresh"))
    expect(connected.locator("#stats")).to_contain_text("@cf/baai/bge-base-en-v1.5")
    expect(connected.locator("#recent")).to_contain_text("types/tuple")


def test_a_search_shows_titles_scores_and_texts(connected: Page) -> None:
    assert search(connected, "immutable sequence")[0] == "Tuples"
    first = connected.locator("#hits li").first
    expect(first).to_contain_text("score 0.")
    expect(first).to_contain_text("chapter: types")
    expect(first).to_contain_text("<b>Not bold</b>")


def test_each_kind_of_filter_narrows_the_search(connected: Page) -> None:
    for label, value in (
        ("chapter", "syntax"),
        ("words, at least", "50"),
        ("draft", "true"),
        ("author", "tim"),
        ("Any of these tags", "nope, syntax"),
    ):
        narrowed = connected.get_by_label(label)
        if narrowed.evaluate("each => each.tagName") == "SELECT":
            narrowed.select_option(value)
        else:
            narrowed.fill(value)
        assert search(connected, "python") == ["The walrus"], label
        connected.locator("#search-form").evaluate("form => form.reset()")
    connected.get_by_label("words, at most").fill("50")
    assert search(connected, "python") == ["Tuples"]
    connected.get_by_label("Documents", exact=True).select_option("inactive")
    assert search(connected, "python") == []


def test_every_declared_field_has_its_filter(page: Page) -> None:
    fields = page.locator("[data-field]").evaluate_all("all => all.map(each => each.dataset.field)")
    assert fields == ["author", "chapter", "draft", "level", "words"]


def test_a_document_opens_and_closes_by_keyboard(connected: Page) -> None:
    search(connected, "walrus")
    connected.locator("#hits button").first.focus()
    connected.keyboard.press("Enter")
    dialog = connected.get_by_role("dialog", name="The walrus")
    expect(dialog).to_contain_text("The walrus operator assigns")
    connected.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(connected.locator("#hits button").first).to_be_focused()


def test_everything_is_reached_by_the_tabulator(connected: Page) -> None:
    connected.locator(".skip").focus()
    seen = []
    for _ in range(30):
        connected.keyboard.press("Tab")
        seen.append(connected.evaluate("document.activeElement.id || document.activeElement.textContent"))
    wanted = ["key", "forget", "query", "field-chapter", "tags", "active", "top-k", "Search"]
    assert [each for each in seen if each in wanted][: len(wanted)] == wanted


def test_a_wrong_key_is_said_aloud_and_nothing_is_shown(browser: Browser, deployment: Deployment) -> None:
    page = browser.new_page()
    page.goto(deployment.url)
    page.get_by_label("API key").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("the token is not valid")
    expect(page.get_by_role("heading", name="Search")).to_be_hidden()
    expect(page.get_by_label("API key")).to_be_focused()
    page.close()


def test_the_key_is_kept_in_memory_only(connected: Page, key: str) -> None:
    kept = connected.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    )
    assert key not in kept
    assert key not in connected.content()
    assert connected.locator("#key").input_value() == ""
    connected.get_by_role("button", name="Forget the key").click()
    expect(connected.get_by_role("heading", name="Search")).to_be_hidden()
    connected.reload()
    expect(connected.locator("#state")).to_have_text("not connected")


def test_on_a_phone_nothing_is_cut_off_and_buttons_are_large(connected: Page) -> None:
    connected.set_viewport_size(PHONE)  # type: ignore[arg-type]
    search(connected, "immutable sequence")
    assert connected.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    heights = connected.locator("button:visible:not(.link), input:visible, select:visible").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().height)"
    )
    assert min(heights) >= 44


def test_the_accessibility_checker_finds_nothing(connected: Page) -> None:
    search(connected, "immutable sequence")
    script = npm_packages(HERE / "browser") / "axe-core" / "axe.min.js"
    # Through the debugger, as the page's own policy lets no other script in.
    session = connected.context.new_cdp_session(connected)
    session.send("Runtime.evaluate", {"expression": script.read_text()})
    answer = session.send(
        "Runtime.evaluate",
        {
            "expression": "axe.run().then(found => JSON.stringify(found.violations.map(each => each.id)))",
            "awaitPromise": True,
            "returnByValue": True,
        },
    )
    assert json.loads(answer["result"]["value"]) == []


def test_progress_is_shown_while_documents_are_embedded_again(connected: Page) -> None:
    stats = {
        "state": "reindexing",
        "model": "m",
        "dims": 3,
        "generation": 1,
        "documents": {"total": 8, "pending": 0, "byModel": {"old": 5, "m": 3}},
        "progress": {"done": 3, "total": 8},
        "repairs": 0,
        "advice": "Wait.",
    }
    connected.route("**/v1/stats", lambda route: route.fulfill(json=stats))
    connected.evaluate("refresh()")
    expect(connected.get_by_role("progressbar")).to_have_attribute("value", "3")
    expect(connected.get_by_text("Re-indexing: 3 of 8 documents")).to_be_visible()
    expect(connected.get_by_text("Wait.")).to_be_visible()
    expect(connected.locator("#stats")).to_contain_text("old")

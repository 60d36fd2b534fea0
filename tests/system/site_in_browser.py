"""The site in a real browser: ``python -m tests.system.site_in_browser docs/_build/html``.

Asks the site's search what an operator would type, and looks at what a page does beside standing
there: tabs, copy buttons, the width of a phone, the dark. ``--pictures`` keeps what was seen. It
takes Chromium with its driver on the PATH, or the path of one in ``CHROMIUM``.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import os
import shutil
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver.chrome.webdriver import WebDriver

#: What is typed, and the pages of which one has to be among the first three that are found.
PHRASES = {
    "message not found": ["use/message-not-found"],
    "dashboard": ["use/message-not-found"],
    "consumed": ["use/consume-queues"],
    "lag": ["use/consume-queues"],
    "hot key": ["use/hot-keys"],
    "disk full": ["use/disk-full"],
    "broker killed": ["use/broker-killed"],
    "kill -9": ["use/broker-killed"],
    "lost index": ["use/index-lost"],
    "corrupt": ["use/index-lost", "reference/errors"],
    "rebuild": ["use/index-lost", "use/write", "reference/command-line"],
    "compare": ["reference/command-line"],
    "yesterday": ["use/yesterdays-messages"],
    "audit": ["reference/audit", "use/yesterdays-messages"],
    "live broker": ["use/live-store"],
    "follow": ["use/stream", "use/live-store"],
    "docker": ["use/start-command-line"],
    "s3": ["use/remote-storage"],
    "airflow": ["use/hourly-job"],
    "delta": ["use/hourly-job"],
    "iceberg": ["use/hourly-job"],
    "parquet": ["use/yesterdays-messages", "use/hourly-job"],
    "duckdb": ["use/duckdb"],
    "polars": ["use/polars"],
    "datafusion": ["use/datafusion"],
    "sail": ["use/sail"],
    "exit code": ["reference/command-line"],
    "time zone": ["reference/options", "reference/command-line"],
}
PHONE, DESKTOP = 420, 1280
#: Pages that have tables, figures, code and tabs.
LOOKED_AT = (
    "index.html",
    "reference/command-line.html",
    "project/benchmarks.html",
    "spec/index.html",
)


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve the folder on this machine, and yield its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def chromium(width: int, theme: str) -> Iterator[WebDriver]:
    """Start a browser whose window has a width, and whose system prefers a theme."""
    options = webdriver.ChromeOptions()
    options.binary_location = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        # A window is never as narrow as a phone; what it shows can be.
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        preferred = [{"name": "prefers-color-scheme", "value": theme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preferred})
        yield driver
    finally:
        driver.quit()


def found_pages(driver: WebDriver, address: str, phrase: str) -> list[str]:
    """Return the first three pages that the search finds, best first."""
    driver.get(f"{address}/search.html?q={quote(phrase)}")
    WebDriverWait(driver, 20).until(
        lambda page: (
            "Search finished" in page.find_element(By.ID, "search-results").text
            or "did not match" in page.find_element(By.ID, "search-results").text
        )
    )
    links = driver.find_elements(By.CSS_SELECTOR, "#search-results ul.search > li > a")
    pages = [str(link.get_attribute("href")) for link in links]
    names = [page.removeprefix(f"{address}/").partition(".html")[0] for page in pages]
    return list(dict.fromkeys(names))[:3]


def ask(driver: WebDriver, address: str) -> list[str]:
    """Type each phrase, print what is found, and return what is not."""
    wrong = []
    for phrase, wanted in PHRASES.items():
        found = found_pages(driver, address, phrase)
        print(f"{phrase:<24} {', '.join(found) or 'nothing'}")
        if not set(found) & set(wanted):
            wrong.append(f"search for {phrase!r}: expected {' or '.join(wanted)}, got {found}")
    return wrong


def use_tabs(driver: WebDriver, address: str) -> list[str]:
    """Choose each tab of the first page; only its own text is to be seen."""
    driver.get(f"{address}/index.html")
    labels = driver.find_elements(By.CSS_SELECTOR, ".sd-tab-set > label")
    texts = driver.find_elements(By.CSS_SELECTOR, ".sd-tab-set > .sd-tab-content")
    wrong = [] if labels else ["index: expected tabs, got none"]
    for label, own in zip(labels, texts, strict=True):
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", label)
        label.click()
        name = label.text
        siblings = own.find_elements(By.XPATH, "../div[contains(@class, 'sd-tab-content')]")
        if [text for text in siblings if text.is_displayed()] != [own]:
            wrong.append(f"index: the tab {name!r} does not show its text alone")
    return wrong


def use_copy_buttons(driver: WebDriver, address: str) -> list[str]:
    """Press each copy button of the first page; the clipboard gets lines that can be typed."""
    driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": address},
    )
    driver.get(f"{address}/index.html")
    WebDriverWait(driver, 20).until(lambda page: page.find_elements(By.CSS_SELECTOR, ".copybtn"))
    wrong = []
    for block in driver.find_elements(By.CSS_SELECTOR, "div.highlight"):
        if not block.is_displayed():  # in a tab that is not chosen
            continue
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", block)
        ActionChains(driver).move_to_element(block).perform()
        block.find_element(By.CSS_SELECTOR, ".copybtn").click()
        copied = driver.execute_async_script(
            "const done = arguments[0];"
            "setTimeout(() => navigator.clipboard.readText().then(done, e => done(`${e}`)), 200)"
        )
        if not copied or copied.startswith(("$ ", ">>> ", "NotAllowed")):
            wrong.append(f"index: copying {block.text!r} gives {copied!r}")
    return wrong


def look(
    driver: WebDriver, address: str, width: int, theme: str, pictures: Path | None
) -> list[str]:
    """Return what is wider than the window, or too faint to be read, on the pages."""
    wrong = []
    for page in LOOKED_AT:
        driver.get(f"{address}/{page}")
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        if wide > width:
            wrong.append(f"{page}: expected at most {width} pixels, got {wide}")
        contrast = driver.execute_script(CONTRAST)
        if contrast < 4.5:  # what WCAG 2 asks of text
            wrong.append(f"{page}, {theme}: the text's contrast is {contrast:.1f}")
        if pictures is not None:
            pictures.mkdir(parents=True, exist_ok=True)
            name = page.removesuffix(".html").replace("/", "-")
            driver.save_screenshot(str(pictures / f"{name}-{width}-{theme}.png"))
    if width == PHONE:
        driver.get(f"{address}/index.html")
        driver.find_element(
            By.CSS_SELECTOR,
            ".mobile-header label.toc-overlay-icon, .mobile-header label.nav-overlay-icon",
        ).click()
        sidebar = driver.find_element(By.CSS_SELECTOR, ".sidebar-tree")
        WebDriverWait(driver, 20).until(lambda _: sidebar.rect["x"] >= 0)
    return wrong


#: The contrast of a page's text with its ground, as WCAG 2 defines it.
CONTRAST = """
const light = (color) => {
  const [r, g, b] = color.match(/[0-9.]+/g).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const text = light(getComputedStyle(document.querySelector("article p, article li")).color);
const ground = light(getComputedStyle(document.body).backgroundColor);
return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
"""


def main() -> int:
    """Return how many of the phrases and pages are not as they should be, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, help="the folder that make docs built")
    parser.add_argument("--pictures", type=Path, help="a folder for what was seen")
    arguments = parser.parse_args()
    wrong = []
    with served(arguments.site) as address:
        with chromium(DESKTOP, "light") as driver:
            wrong += ask(driver, address)
            wrong += use_tabs(driver, address)
            wrong += use_copy_buttons(driver, address)
        for width in (PHONE, DESKTOP):
            for theme in ("light", "dark"):
                with chromium(width, theme) as driver:
                    wrong += look(driver, address, width, theme, arguments.pictures)
    print(*wrong, sep="\n")
    print(f"{len(PHRASES)} phrases, {len(LOOKED_AT)} pages: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

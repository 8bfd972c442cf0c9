"""Tests reports in a real browser: nothing overflows (wide, narrow, dark and printed), and details in pictures are
available by keyboard and zooming, too.
"""

import base64
import io
import shutil

import pytest
from conftest import TERASORT

import forebay

webdriver = pytest.importorskip("selenium.webdriver", reason="no Selenium; pip install -r browser.txt")
pypdf = pytest.importorskip("pypdf", reason="no pypdf; pip install -r browser.txt")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

pytestmark = pytest.mark.slow

SIZES = {"wide": 1400, "tablet": 820, "narrow": 420}

# Returns the elements that extend beyond the window, except those inside scrollable elements.
OUTSIDE = """
const scrolls = (node) => node.closest(".wide, figure, pre") !== null;
const all = [...document.querySelectorAll("main *")].filter((node) => node.getClientRects().length !== 0);
const outside = all.filter((node) => !scrolls(node) && node.getBoundingClientRect().right > window.innerWidth + 1);
return outside.map((node) => `${node.localName}.${node.className} ${node.textContent.slice(0, 60)}`);
"""

# Returns the texts within images that extend beyond their image.
CUT = """
const said = [];
for (const svg of document.querySelectorAll("figure svg:not(svg svg)")) {
  if (svg.getClientRects().length === 0) continue;
  const box = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].filter((one) => one.textContent.trim() !== "" &&
    one.closest("svg.zoom") === null && one.getClientRects().length !== 0);
  const boxes = texts.map((one) => [one.textContent, one.getBoundingClientRect()]);
  for (const [text, one] of boxes) {
    if (one.left < box.left - 2 || one.right > box.right + 2 || one.top < box.top - 2 || one.bottom > box.bottom + 2) {
      said.push(`cut: ${text}`);
    }
  }
}
return said;
"""

# Returns the contrast between each text and its background, the lowest first.
CONTRAST = """
const parts = (color) => color.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const behind = (node) => {
  for (let at = node; at !== null; at = at.parentElement) {
    const color = parts(getComputedStyle(at).backgroundColor);
    if (color.length === 3 || color[3] > 0.9) return color;
  }
  return [255, 255, 255];
};
const all = [...document.querySelectorAll("main h1, main h2, main p, main td, main th, main dt, main dd, main summary")];
const shown = all.filter((node) => node.getClientRects().length !== 0 && node.textContent.trim() !== "");
const ratios = shown.map((node) => {
  const [a, b] = [light(parts(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
  return [(a + 0.05) / (b + 0.05), node.textContent.slice(0, 60)];
});
return ratios.sort((a, b) => a[0] - b[0])[0];
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Returns a report of each kind, by name."""
    folder = tmp_path_factory.mktemp("pages")
    of = {
        name: folder / f"{name}.html"
        for name in ("advise", "simulate", "cache", "describe", "compare", "capacity", "buy", "consolidate")
    }
    forebay.advise(report=of["advise"])
    forebay.simulate(TERASORT, device="exos-x18", policy=["none", "mq-deadline", "clook"], report=of["simulate"])
    forebay.cache(TERASORT, report=of["cache"])
    forebay.describe(TERASORT, threads=True, report=of["describe"])
    forebay.compare(TERASORT, TERASORT, report=of["compare"])
    forebay.plan_capacity(TERASORT, report=of["capacity"])
    forebay.plan_buy(TERASORT, device=["exos-x18", "d7-p5520"], report=of["buy"])
    forebay.plan_consolidate([TERASORT, TERASORT], report=of["consolidate"])
    return of


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--force-device-scale-factor=1",
    ):
        options.add_argument(flag)
    chromium = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chromium
    chromium.quit()


def shown(browser, path, width=1400, scheme="light"):
    """Opens a page in a window of this width, and opens collapsed sections."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(path.as_uri())
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true;")


@pytest.mark.parametrize("width", SIZES.values(), ids=SIZES.keys())
def test_nothing_lies_outside_of_the_window(browser, pages, width):
    for name, path in pages.items():
        shown(browser, path, width)
        assert browser.execute_script(OUTSIDE) == [], name
        assert browser.execute_script("return document.scrollingElement.scrollWidth") <= width, name
        assert browser.execute_script(CUT) == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(browser, pages, scheme):
    for name, path in pages.items():
        shown(browser, path, scheme=scheme)
        ratio, text = browser.execute_script(CONTRAST)
        assert ratio >= 4.5, f"{name}: {ratio:.2f} {text}"


def test_a_picture_says_by_keys_what_it_says_when_pointed_at(browser, pages):
    figures = 0
    for name, path in pages.items():
        shown(browser, path)
        for figure in browser.find_elements("css selector", "figure[tabindex]"):
            titles = browser.execute_script(
                "return [...arguments[0].querySelectorAll('title')].filter((one) => one.parentNode.localName !== 'svg'"
                " ).map((one) => one.textContent)",
                figure,
            )
            if not titles:
                continue
            figures += 1
            browser.execute_script("arguments[0].focus()", figure)
            figure.send_keys(Keys.ARROW_RIGHT)
            said = figure.find_element("css selector", ".pointed").text
            said = " ".join(said.split())
            assert said and said in [" ".join(title.split()) for title in titles], (name, said)
            figure.send_keys(Keys.END)
            last = figure.find_element("css selector", ".pointed").text
            assert last != said or len(titles) == 1, name
    assert figures > 8


def test_pictures_are_zoomed_in_time(browser, pages):
    shown(browser, pages["simulate"])
    view = "return document.querySelector('svg.zoom').getAttribute('viewBox')"
    whole = browser.execute_script(view)
    buttons = {one.text: one for one in browser.find_elements("css selector", ".controls button")[:5]}
    browser.execute_script("arguments[0].click()", buttons["Zoom in"])
    near = browser.execute_script(view)
    assert float(near.split()[2]) == pytest.approx(float(whole.split()[2]) / 2)
    browser.execute_script("arguments[0].click()", buttons["Later"])
    assert float(browser.execute_script(view).split()[0]) > float(near.split()[0])
    browser.execute_script("arguments[0].click()", buttons["All"])
    assert browser.execute_script(view) == whole


def test_what_a_curve_says_stands_in_its_table(browser, pages):
    """Every figure in the tooltips of the cache curve is a cell of the page's tables."""
    shown(browser, pages["cache"])
    cells = browser.execute_script("return [...document.querySelectorAll('td, th')].map((one) => one.textContent.trim())")
    said = browser.execute_script("return [...document.querySelectorAll('figure .spot title')].map((one) => one.textContent)")
    assert said
    known = {cell.replace("\xa0", " ") for cell in cells}
    told = [text.rsplit(": ", 1)[-1].replace("\xa0", " ") for text in said]
    assert any(figure in known or figure.removesuffix(" %") in known for figure in told), (told[:5], sorted(known)[:40])


def test_printed_pages_are_filled(browser, pages):
    """In print, no page but the last is half empty, and the answer takes at most four pages before the collapsed
    sections.
    """
    for name, path in pages.items():
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.get(path.as_uri())
        printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
        reader = pypdf.PdfReader(io.BytesIO(base64.b64decode(printed["data"])))
        lengths = [len(page.extract_text()) for page in reader.pages]
        assert all(length > 150 for length in lengths[:-1]), (name, lengths)
        assert name != "advise" or len(lengths) <= 4, lengths

"""The system's own Chromium without a window and without a network; what a page logs and asks for is collected.

Nothing is downloaded: Chromium and its driver are those of Debian's packages ``chromium`` and ``chromium-driver`` (or
an installed Chrome), Selenium is of the extra ``browser``.
"""

import base64
import json
import os
import time
from importlib.util import find_spec
from pathlib import Path

BROWSERS = ("/usr/bin/chromium", "/usr/bin/google-chrome")  # the first that is there
DRIVER = "/usr/bin/chromedriver"
#: Widths and heights to look at a page in.
WIDE, NARROW = (1280, 900), (390, 844)
#: A guard against a hang, in seconds.
LIMIT = 600
#: True once the page of a trace has drawn its first step.
READY = "document.documentElement.dataset.ready === 'yes'"
SWITCHES = (
    "--headless=new",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers have little of it
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no name is looked up
    "--proxy-server=http://127.0.0.1:9",  # what has an address fails at a closed port
    "--proxy-bypass-list=<-loopback>",
)
#: The schemes of addresses that stay within the machine.
LOCAL = ("file:", "data:", "blob:", "about:")


def browser_problem():
    """Why there is no browser here; None if there is."""
    if find_spec("selenium") is None:
        return "Selenium is missing: pip install -e '.[browser]'"
    if installed() is None or not Path(DRIVER).is_file():
        return f"expected {BROWSERS[0]} and {DRIVER}: apt-get install chromium chromium-driver"
    return None


def installed():
    """The browser that is there."""
    return next((path for path in BROWSERS if Path(path).is_file()), None)


class Browser:
    """One page at a time. ``driver`` is Selenium's, for what has no method here."""

    def __init__(self):
        from selenium.webdriver import Chrome, ChromeOptions, ChromeService

        options = ChromeOptions()
        options.binary_location = installed() or ""
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium's sandbox refuses to run as root
        for switch in (*SWITCHES, *root):
            options.add_argument(switch)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = Chrome(options, ChromeService(DRIVER))
        self._errors = []
        self._requests = []

    def open(self, page, fragment=""):
        """Load a file; fragment is what stands after # in its address."""
        self.driver.get(page.resolve().as_uri() + (f"#{fragment}" if fragment else ""))

    def show(self, page, fragment=""):
        """Load the page of a trace, until it is ready."""
        self.open(page, fragment)
        self.wait(READY)

    def run(self, script, *arguments):
        """The value that a function body in JavaScript returns; it sees ``arguments``."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, expression):
        """The first value of a JavaScript expression that is true."""
        limit = time.monotonic() + LIMIT
        while not (value := self.run(f"return {expression}")):
            if time.monotonic() > limit:
                raise TimeoutError(f"{expression}: expected it to become true, still {value!r}; {self.errors()}")
            time.sleep(0.02)
        return value

    def find(self, selector):
        """The first element of a CSS selector; an error if there is none."""
        return self.driver.find_element("css selector", selector)

    def click(self, selector):
        """Click on an element, which must be in sight and not covered."""
        self.find(selector).click()

    def hover(self, selector):
        """Move the pointer onto an element."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).move_to_element(self.find(selector)).perform()

    def press(self, *keys):
        """Press keys, one after the other, where the focus is: "ArrowRight", "Tab", "a"."""
        from selenium.webdriver import ActionChains, Keys

        for key in keys:
            name = "".join(f"_{letter}" if letter.isupper() else letter for letter in key).upper().lstrip("_")
            ActionChains(self.driver).send_keys(getattr(Keys, name, key)).perform()

    def look(self, size=WIDE, *, dark=False, printed=False):
        """From now on the page has this width and height, and the reader asks for dark or for paper."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media = {"media": "print" if printed else "", "features": [scheme]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def picture(self, path):
        """Write a PNG of what is in sight."""
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", {})
        path.write_bytes(base64.b64decode(picture["data"]))

    def errors(self):
        """What pages have logged as errors since ``begin``: exceptions, broken files, forbidden content."""
        self._read()
        return list(self._errors)

    def requests(self):
        """The addresses outside of this machine's files that were asked for since ``begin``; none got through."""
        self._read()
        return list(self._requests)

    def expect_silence(self):
        """Raise AssertionError if there was an error or a request since ``begin``."""
        assert not self.requests(), f"the page asked for {self.requests()}"
        assert not self.errors(), "\n".join(self.errors())

    def begin(self):
        """Forget what was."""
        self.driver.get("about:blank")
        self.look()
        self._read()
        self._errors, self._requests = [], []

    def _read(self):
        """Selenium hands out each line of a log once."""
        self._errors += [line["message"] for line in self.driver.get_log("browser") if line["level"] == "SEVERE"]
        for line in self.driver.get_log("performance"):
            event = json.loads(line["message"])["message"]
            if event["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                address = event["params"].get("url") or event["params"]["request"]["url"]
                self._requests += [] if address.startswith(LOCAL) else [address]

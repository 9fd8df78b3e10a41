"""The page that a compilation leaves (TC_COMPILE_DEBUG), in a browser without a screen: it renders, its links lead
somewhere, and it asks for nothing beyond its folder. The screenshot stays in the build folder.

  python3 ci/report.py [BUILD]

Where there is no Chromium (Ubuntu has none as a package) all is checked but the rendering, which is skipped.
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECTIONS = ("pipeline", "run", "graph", "memory", "kernels", "refusals")


class Page(html.parser.HTMLParser):
    """The ids, the links, and the texts of headings of a page; `boxes`: what is drawn in the graph."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.boxes, self.code = set(), [], [], 0, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.add(attrs["id"])
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        if "src" in attrs or tag in ("link", "script", "iframe", "img"):
            self.loads.append(tag)
        self.boxes += tag == "rect"
        self.code += tag == "pre"


def broken(page, folder):
    """Links that lead nowhere, or out of the folder."""
    for link in page.links:
        if link.startswith("#"):
            if link[1:] not in page.ids:
                yield link
        elif re.match(r"[a-z]+:|/|\.\.", link) or not os.path.exists(os.path.join(folder, link)):
            yield link


def browse(browser, path, *arguments):
    # The content is ours; in a container the sandbox has no namespaces to make.
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
               "--host-resolver-rules=MAP * ~NOTFOUND", *arguments, "file://" + path]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build"))
    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def result(name, fault):
        counts["failed" if fault else "passed"] += 1
        if fault:
            print(f"failed: {name}: {fault}")

    with tempfile.TemporaryDirectory() as scratch:
        env = dict(os.environ, XDG_CACHE_HOME=scratch)
        subprocess.run([os.path.join(build, "bin", "tcrun"), "run", os.path.join(ROOT, "examples", "gpt_block.pt2"),
                        "--backend=cpu", "--quiet", "--debug-dir=" + scratch + "/debug"], env=env, check=True)
        folder = os.path.join(scratch, "debug", "gpt_block.0")
        path = os.path.join(folder, "report.html")
        with open(path, encoding="utf-8") as f:
            page = Page(f.read())
        result("links", ", ".join(broken(page, folder)))
        result("nothing is loaded", ", ".join(page.loads))
        result("sections", ", ".join(s for s in SECTIONS if s not in page.ids))
        result("the harness runs", subprocess.run([os.path.join(folder, "bench.sh"), "--runs=1"], env=env,
                                                  capture_output=True, text=True, check=False).returncode)
        browser = next((b for b in BROWSERS if shutil.which(b)), None)
        if browser is None:
            counts["skipped"] += 1
        else:
            picture = os.path.join(build, "report.png")
            if os.path.exists(picture):
                os.remove(picture)
            seen = Page(browse(browser, path, "--dump-dom"))
            browse(browser, path, "--window-size=1200,3000", "--screenshot=" + picture)
            result("rendered as written", (seen.ids, seen.boxes, seen.code) != (page.ids, page.boxes, page.code)
                   and f"{seen.boxes} boxes of {page.boxes}, {seen.code} texts of {page.code}")
            result("screenshot", not (os.path.exists(picture) and os.path.getsize(picture) > 20000) and "none, or an empty one")
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())

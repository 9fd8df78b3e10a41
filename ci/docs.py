"""Runs the guides under docs/ADDING_*.md, so that they cannot rot.

Each guide is followed in a scratch copy of the tree. Its fenced blocks are marked in the line that opens them:

  ```c file=core/ops/mine.c         the block becomes that file
  ```c append=core/ops/other.c      the block is added to that file's end
  ```sh run                         the block is run with sh -eu in the copy's root
  ```text output                    what the last run printed has these lines, in this order

Other blocks are not touched. A guide without a `run` block proves nothing and fails. One with the line
<!-- continues OTHER.md --> is followed in the tree where that guide has ended.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONTINUES = re.compile(r"^<!-- continues (\S+) -->$", re.M)
BLOCK = re.compile(r"^```(\w*)[ \t]*([^\n]*)\n(.*?)^```[ \t]*$", re.M | re.S)


def copy_tree(target):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for path in listed.decode().split("\0"):
        source, there = os.path.join(ROOT, path), os.path.join(target, path)
        if path and os.path.isfile(source):
            os.makedirs(os.path.dirname(there), exist_ok=True)
            shutil.copy2(source, there, follow_symlinks=False)


def missing_line(expected, got):
    """The first expected line that does not follow in `got`, or None."""
    lines = iter(got.split("\n"))
    for wanted in filter(None, (line.strip() for line in expected.split("\n"))):
        if not any(wanted in line for line in lines):
            return wanted
    return None


def follow(guide, tree):
    """None, or what went wrong."""
    with open(guide, encoding="utf-8") as file:
        text = file.read()
    printed = None
    for match in BLOCK.finditer(text):
        mark, body, line = match.group(2).strip(), match.group(3), text.count("\n", 0, match.start()) + 1
        where = "%s:%d" % (os.path.relpath(guide, ROOT), line)
        action, _, path = mark.partition("=")
        if action in ("file", "append"):
            target = os.path.normpath(os.path.join(tree, path))
            if not target.startswith(tree + os.sep):
                return "%s: %s leads out of the tree" % (where, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w" if action == "file" else "a", encoding="utf-8") as file:
                file.write(body)
        elif mark == "run":
            done = subprocess.run(["sh", "-eu", "-c", body], cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=1800, errors="replace")
            printed = done.stdout
            if done.returncode != 0:
                return "%s: exit code %d\n%s" % (where, done.returncode, printed[-4000:])
        elif mark == "output":
            missing = missing_line(body, printed or "")
            if missing is not None:
                return "%s: '%s' was not printed\n%s" % (where, missing, (printed or "")[-4000:])
    return None if printed is not None else "%s: no block is marked 'run'" % os.path.relpath(guide, ROOT)


def main():
    guides = sys.argv[1:] or sorted(glob.glob(os.path.join(ROOT, "docs", "ADDING_*.md")))
    before = {}
    for guide in guides:
        with open(guide, encoding="utf-8") as file:
            found = CONTINUES.search(file.read())
        before[os.path.basename(guide)] = found.group(1) if found else None
    failed = 0
    for first in guides:
        name = os.path.basename(first)
        if before[name] in before:
            continue  # followed behind the other
        with tempfile.TemporaryDirectory() as folder:
            tree = os.path.join(os.path.realpath(folder), "tc")
            copy_tree(tree)
            if before[name]:  # asked for alone
                follow(os.path.join(ROOT, "docs", before[name]), tree)
            for guide in [first] + [g for g in guides if before[os.path.basename(g)] == name]:
                wrong = follow(os.path.abspath(guide), tree)
                print("%s: %s" % (os.path.basename(guide), wrong or "holds"), flush=True)
                failed += wrong is not None
    print("%d passed, %d failed, 0 skipped" % (len(guides) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The rules of the house that a compiler does not check. Prints one line per fault; the last line counts the rules.

  layering    a folder of core/ includes only what lies below it (docs/architecture); plugins and the SDK see only tc/
  neutral     the code and the messages of core/ name no backend and no vendor's library (comments may, as examples)
  banned      no unbounded string functions, no exit or printing in library code
  sizes       no source above 1500 lines
  headers     every source begins with a comment that says what it is
  words       no notes to self, no machine paths
  text        UTF-8, no tabs or blanks at line ends, a newline at the end
  links       relative links in Markdown lead somewhere
  calls       a plugin's manifest lists the ops that its sources name, which is what docs/ops.md is made from
  abi         what version 1 of the plugin interface promises is kept, and its page is up to date (ci/abi.py)
"""

import os
import re
import subprocess
import sys

import abi

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What each folder of core/ may include, besides itself: everything on the lines above it.
LAYERS = [
    ("base",),
    ("symbolic", "config"),
    ("tensor",),
    ("ir",),
    ("ops",),
    ("guards", "passes", "frontends"),
    ("autograd",),
    ("loop",),
    ("schedule",),
    ("kernel",),
    ("plan",),
    ("plugin",),
    ("runtime",),
    ("api", "rt"),
]
RANK = {folder: rank for rank, folders in enumerate(LAYERS) for folder in folders}

BACKENDS = (
    "cpu cuda opencl rocm hip vulkan metal sycl nvrtc nvptx cubin cublas cublaslt cudnn cufft cutlass "
    "onednn dnnl mkl llvm orc pocl openblas lapack tensorrt openvino"
).split()
# PyTorch's schemas have an argument cudnn_enable or cudnn_enabled.
BACKEND = re.compile(r"(?<![a-z])(?!cudnn_enabled?)(%s)(?![a-z])" % "|".join(BACKENDS), re.I)

BANNED = re.compile(
    r"(?<![\w.>])(strcpy|strcat|strncpy|strncat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|scanf|sscanf|fscanf|"
    r"tmpnam|tempnam|mktemp|alloca|system|popen|rand|srand|exit|_exit|quick_exit|abort|printf|vprintf|fprintf|vfprintf|"
    r"puts|putchar|perror|setenv|putenv|setlocale|localtime|gmtime|ctime|asctime|strerror)\s*\("
)

# Spelled in halves, so that this file passes its own rule.
WORDS = re.compile("|".join([r"\bTO" r"DO\b", r"\bFIX" r"ME\b", r"\bXX" r"X\b", r"\bHA" r"CK\b", r"/wo" r"rk/", r"/ro" r"ot/",
                             r"(?<!-)/tm" r"p/", r"\b(?:issue|PR|pull request) #?\d+"]), re.I)

CODE = (".c", ".h", ".cc")
TEXT = CODE + (".py", ".sh", ".md", ".cmake", ".txt", ".toml", ".tc", ".test", ".json", ".def", ".cl", ".cu")


def without_comments(text, strings):
    """The same text with comments blanked, and with the contents of literals too unless `strings`; lines stay."""

    def blank(match):
        found = match.group(0)
        if found[0] in "\"'":
            return found if strings else found[0] + " " * (len(found) - 2) + found[0]
        return re.sub(r"[^\n]", " ", found)

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def each_line(pattern, text):
    for number, line in enumerate(text.split("\n"), 1):
        for match in pattern.finditer(line):
            yield number, match


INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def layering(path, text):
    parts = path.split("/")
    for number, match in each_line(INCLUDE, text):
        quoted, target = match.group(1) == '"', match.group(2)
        if parts[0] == "core" and target.startswith("core/"):
            mine, other = parts[1], target.split("/")[1]
            if mine not in RANK or other not in RANK:
                yield number, "%s is no folder of the list in ci/lint.py" % (mine if mine not in RANK else other)
            elif other != mine and RANK[other] >= RANK[mine]:
                yield number, "core/%s must not include core/%s, which lies above or beside it" % (mine, other)
        elif parts[0] in ("sdk", "plugins") and quoted:
            own = "sdk/" if parts[0] == "sdk" else "plugins/%s/" % parts[1]
            beside = os.path.normpath(os.path.join(os.path.dirname(path), target))
            inside = beside.startswith(own) and os.path.exists(os.path.join(ROOT, beside))
            if not target.startswith("tc/") and not inside:
                yield number, '%s sees only "tc/…" and its own folder, not "%s"' % (own, target)
        elif parts[0] == "core" and quoted and not target.startswith(("tc/", "sdk/abi/")):
            yield number, 'includes are written from the root: "core/…", not "%s"' % target


def neutral(path, text):
    if path.startswith("core/"):
        # The compiler's own question about the machine that it runs on is no backend.
        text = text.replace("__builtin_cpu_supports", "")
        # Nor is the name of PyTorch's op.
        text = text.replace("_flash_attention_for_cpu", "")
        for number, match in each_line(BACKEND, without_comments(text, strings=True)):
            yield number, "core/ names no backend: '%s'" % match.group(0)


def banned(path, text):
    if path.startswith(("core/", "sdk/src/", "plugins/")):
        for number, match in each_line(BANNED, without_comments(text, strings=False)):
            yield number, "%s() has no place in library code" % match.group(1)


def sizes(path, text):
    lines = text.count("\n")
    if lines > 1500 and not path.endswith((".json", ".def")):
        yield 1, "%d lines; 1500 is the most" % lines


def headers(path, text):
    if path.endswith(CODE) and not text.startswith(("//", "/*")):
        yield 1, "begins without a comment that says what the file is"


def words(path, text):
    for number, match in each_line(WORDS, text):
        line = text.split("\n")[number - 1]
        if "TMPDIR:-" not in line:
            yield number, "'%s'" % match.group(0)


def text_form(path, text):
    for number, match in each_line(re.compile(r"\t|[ \r]+$"), text):
        if not path.endswith(".md"):  # where two blanks at a line's end mean something
            yield number, "tab" if match.group(0) == "\t" else "blank at the end of the line"
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end"


LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def links(path, text):
    if path.endswith(".md"):
        for number, match in each_line(LINK, text):
            target = match.group(1)
            if re.match(r"[a-z]+:", target):
                continue
            if not os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)):
                yield number, "'%s' is not there" % target


OP = re.compile(r'"(aten::\w+)"')


def calls(path, text):
    folder = os.path.join(ROOT, os.path.dirname(path))
    listed = re.search(r"^calls = \[(.*?)^\]", text, re.M | re.S)
    if not path.startswith("plugins/") or not listed:
        return
    named = set()
    for place, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".c"):
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    named.update(OP.findall(file.read()))
    for op in sorted(named.symmetric_difference(OP.findall(listed.group(1)))):
        yield 1, "%s is %s" % (op, "not in `calls`" if op in named else "in `calls`, but in no source")


RULES = [
    ("layering", CODE, layering),
    ("neutral", CODE, neutral),
    ("banned", CODE, banned),
    ("sizes", TEXT, sizes),
    ("headers", CODE, headers),
    ("words", TEXT, words),
    ("text", TEXT, text_form),
    ("links", (".md",), links),
    ("calls", (".tc-plugin.toml",), calls),
]


def main():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    paths = [p for p in listed.decode().split("\0") if p]
    faults = dict.fromkeys((name for name, _, _ in RULES), 0)
    for path in paths:
        kinds = TEXT if "." in os.path.basename(path) else None
        full = os.path.join(ROOT, path)
        if not os.path.isfile(full) or (kinds and not path.endswith(kinds)):
            continue
        try:
            with open(full, encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError:
            print("%s: not UTF-8" % path)
            faults["text"] += 1
            continue
        if path == "LICENSE" or path.startswith("tests/fuzz/corpus/"):
            continue
        for name, suffixes, rule in RULES:
            if kinds and not path.endswith(suffixes):
                continue
            if not kinds and name not in ("sizes", "words", "text"):
                continue
            for number, what in rule(path, text):
                print("%s:%d: %s: %s" % (path, number, name, what))
                faults[name] += 1
    for what in abi.faults():
        print("%s" % what)
        faults["abi"] = faults.get("abi", 0) + 1
    failed = sum(1 for count in faults.values() if count)
    print("%d passed, %d failed, 0 skipped" % (len(RULES) + 1 - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

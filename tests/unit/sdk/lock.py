"""The lock of the plugin interface notices every edit that breaks a promise: ci/abi.py on copies of the tree with one."""

import os
import shutil
import subprocess
import sys
import tempfile

ROOT = sys.argv[1]
ROW = 'TC_ABI_FIELD(tc_plugin_desc, 0, 304, vendor, "Who made it")\n'
SLOT = "int32_t, enumerate, (const tc_host *h, int32_t *out_count)"
KERNEL, BODY, EXPR = "sdk/include/tc/kernel.h", "core/loop/text_body.c", "core/base/expr.h"
FILES = ["ci/abi.py", "sdk/abi/abi.def", "sdk/abi/abi-1.lock", "docs/plugin-abi.md", KERNEL, BODY, EXPR, "core/kernel/parse.c"]
FILES += ["sdk/include/tc/%s.h" % name for name in ("types", "op", "lower", "template", "plugin")]


def check(old, new, word, path="sdk/abi/abi.def"):
    """Edits a copy, and returns what the check says; `word` must be in it."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(folder, name))
        if old:
            with open(os.path.join(folder, path), encoding="utf-8") as file:
                text = file.read()
            assert old in text, old
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(text.replace(old, new, 1))
        run = lambda how: subprocess.run([sys.executable, os.path.join(folder, "ci/abi.py"), how],
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        got = run("--check")
        if word not in got.stdout or got.returncode != (word != "0 faults"):
            sys.exit("after '%s' -> '%s' the check says, with code %d:\n%s" % (old, new, got.returncode, got.stdout))
        refused = run("--write").returncode != 0
        again = run("--check").stdout
        return refused, again


# What breaks a promise is found, and is not written into the lock.
for old, new in (
    (ROW, ""),                                                                # removed
    ("0, 304, vendor", "0, 312, vendor"),                                     # moved
    ("0, 304, vendor", "0, 304, seller"),                                     # renamed
    (SLOT, SLOT.replace("int32_t *out", "int64_t *out")),                     # another type
    (SLOT, SLOT.replace("int32_t, ", "int64_t, ", 1)),                        # another result
    ("TC_ABI_SIZE(tc_view, 40)", "TC_ABI_SIZE(tc_view, 48)"),                 # another size
    ("0, 8, TC_CAP_DEVICE, int32_t, enumerate", "1, 8, TC_CAP_DEVICE, int32_t, enumerate"),
    (ROW, 'TC_ABI_FIELD(tc_plugin_desc, 1, 300, between, "In between")\n' + ROW),
):
    refused, _ = check(old, new, "is promised by version 1 and was changed, moved or removed")
    assert refused, "%s was written into the lock" % new
# So is what breaks the promise of an opcode, a number, a function of bodies or a rule of a grammar.
for old, new, path in (
    ('X(SUB, "sub", 2, \'a\')', "", KERNEL),                                  # removed: those behind it move, too
    ('X(SUB, "sub", 2, \'a\')', 'X(SUB, "minus", 2, \'a\')', KERNEL),         # another text
    ('X(SUB, "sub", 2, \'a\')', 'X(SUB, "sub", 3, \'a\')', KERNEL),           # other operands
    ('X(SUB, "sub", 2, \'a\')', 'X(NEW, "new", 1, \'a\') X(SUB, "sub", 2, \'a\')', KERNEL),
    ("TC_SPACE_GLOBAL, TC_SPACE_SHARED", "TC_SPACE_SHARED, TC_SPACE_GLOBAL", KERNEL),
    ("TC_KI_FAST = 2", "TC_KI_FAST = 8", KERNEL),
    ("X(F16, 10,", "X(F16, 20,", "sdk/include/tc/types.h"),
    ("TC_RED_PROD,", "", "sdk/include/tc/lower.h"),
    ("(1u << (8 + (k)))", "(1u << (16 + (k)))", "sdk/include/tc/template.h"),
    ('{"relu", "max(a, 0)", 1},', "", BODY),
    ('{"softplus", ', '{"soft_plus", ', BODY),
    ("'true' | 'false'\n", "'yes' | 'no'\n", "core/kernel/parse.c"),
    ("| 'none' |", "|", EXPR),
):
    refused, _ = check(old, new, "is promised by version 1 and was changed, moved or removed", path)
    assert refused, "%s was written into the lock" % new
# What is appended to them is asked for, and then promised, as is what is appended to a table.
for old, new, path in (
    ('X(MMA_F16, "mma.f16", 10, \'s\')', 'X(MMA_F16, "mma.f16", 10, \'s\') X(NEW, "new", 2, \'a\')', KERNEL),
    ("TC_KI_FAR = 16", "TC_KI_FAR = 16, TC_KI_NEW = 32", KERNEL),
    ('{"relu", "max(a, 0)", 1},', '{"relu", "max(a, 0)", 1},\n    {"relu6", "min(max(a, 0), 6)", 1},', BODY),
    ("literal := number | 'true' | 'false'", "literal := number | 'true' | 'false' | 'inf'", "core/kernel/parse.c"),
):
    refused, again = check(old, new, "is not in the lock", path)
    assert not refused and "0 faults" in again, again
# What is appended is asked for, and then promised.
refused, again = check('TC_ABI_FIELD(tc_extension, 1, 0, id', 'TC_ABI_FIELD(tc_plugin_desc, 1, 448, later, "Later")\n'
                       'TC_ABI_FIELD(tc_extension, 1, 0, id', "is not in the lock")
assert not refused and "0 faults" in again, again
# The page and the lock themselves.
check("trusted code", "harmless code", "is not what sdk/abi/abi.def says", "docs/plugin-abi.md")
check("at 304 since", "at 305 since", "is promised by version 1", "sdk/abi/abi-1.lock")
check("", "", "0 faults")
print("the lock holds")

"""Sums a ctest JUnit file: cases of cmocka programs where they print them, else one per test. Shows the ends of what failed."""

import re
import sys
import xml.etree.ElementTree as xml

KINDS = ("PASSED", "FAILED", "SKIPPED")


def main(path):
    total = dict.fromkeys(KINDS, 0)
    for case in xml.parse(path).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        counts = {kind: re.findall(r"^\[ +%s +\] (\d+) test\(s\)" % kind, output, re.M) for kind in KINDS}
        status = case.get("status")
        if not any(counts.values()):
            kind = {"run": "PASSED", "fail": "FAILED"}.get(status, "SKIPPED")
            counts = {kind: ["1"]}
        elif status == "fail" and not counts["FAILED"]:  # a crash, a leak, a time limit
            counts["FAILED"] = ["1"]
        if status == "fail":
            print("-- failed: %s\n%s" % (case.get("name"), "\n".join(output.splitlines()[-60:])))
        for kind, numbers in counts.items():
            total[kind] += sum(map(int, numbers))
    print("%d passed, %d failed, %d skipped" % tuple(total[kind] for kind in KINDS))
    return 1 if total["FAILED"] or not total["PASSED"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

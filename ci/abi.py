"""What is made from sdk/abi/abi.def besides code: the frozen layout and the page of documentation.

  python3 ci/abi.py --check   the lock holds and the page is up to date (ci/lint.py asks the same)
  python3 ci/abi.py --write   appends new rows of locked sections to the lock, writes the page

sdk/abi/abi-1.lock has a line for each row of the sections that version 1 promises, and for what tables cannot say: opcodes, dtypes
and other numbers of the headers, the functions that bodies of ops may call, and the grammars of those bodies and of kernels.
A line is never changed, moved within its struct, table or list, or removed; what is new comes behind the last line of its
struct, table or list. A rule of a grammar may get further alternatives at its end.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE, LOCK, PAGE = "sdk/abi/abi.def", "sdk/abi/abi-1.lock", "docs/plugin-abi.md"

HEADERS = ["sdk/include/tc/" + name for name in ("types.h", "kernel.h", "op.h", "lower.h", "template.h", "plugin.h")]
BODIES = "core/loop/text_body.c"
GRAMMARS = {"expression": "core/base/expr.h", "kernel": "core/kernel/parse.c"}

# Section, title, locked by version 1, what it is.
SECTIONS = [
    ("HANDSHAKE", "The handshake", True,
     "What `tc_plugin_query` fills. The prefix is the same in every version, so that both sides can always tell what the other is."),
    ("HOST", "Host services", True, "What a plugin gets from the program. Functions take `self` as their first argument."),
    ("DEVICE", "Devices", True,
     "The table of a plugin with the capability `device`. Slots that also name `codegen` are needed where the plugin compiles kernels."),
    ("DELEGATES", "Level 0: delegates", True,
     "Compilers for parts of graphs: what they claim is left to them. The table comes in an extension (`TC_EXT_DELEGATE`)."),
    ("CALLS", "Level 1: calls", True,
     "Libraries and hand-written routines, asked about nodes of the graph: what they take is not compiled."),
    ("OPS", "Ops", True, "A row per op, in-tree and from plugins alike (`docs/ADDING_AN_OP.md`)."),
    ("OP", "Functions for ops", True, "What meta functions, lowerings and calls ask about an op's arguments: `tc_op_*`, `tc_int_*`."),
    ("CODEGEN", "Level 2: kernels", True, "Code generation for the kernels that the core makes."),
    ("KERNEL", "Kernels, as plugins read them", True, "The structs that accessors fill."),
    ("KERNEL_READ", "Functions that read kernels", True, "`tc_k_*`."),
    ("KERNEL_BUILD", "Functions that build kernels", True, "`tc_kb_*`."),
    ("EXPAND", "Functions for decompositions in C", True, "`tc_ex_*`."),
    ("LOWER", "Functions for lowerings", True, "`tc_lo_*`."),
    ("TEMPLATE", "Level 3: templates", True, "The inside of a stage, written against holes."),
    ("STAGE", "Functions for templates", True, "`tc_stage_*`."),
]
ROW = re.compile(r"^TC_ABI_(FIELD|SIZE|SLOT|SLOT_PROC|FN|PROC|BY_HAND)\((.*)\)\s*$")


def arguments(text):
    """Splits at commas outside of parentheses and quotes."""
    out, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "([{":
            depth += 1
        elif not quoted and c in ")]}":
            depth -= 1
        elif not quoted and depth == 0 and c == ",":
            out.append(text[start:i].strip())
            start = i + 1
    return out + [text[start:].strip()]


def read():
    """[(section, kind, {struct, offset, since, need, name, type, doc})] in the order of the list."""
    rows, section = [], None
    with open(os.path.join(ROOT, SOURCE), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        started = re.match(r"#ifdef TC_ABI_WANT_(\w+)$", line)
        if started:
            section = started.group(1)
        row = ROW.match(line)
        if line.startswith("TC_ABI_") and not row:
            raise SystemExit("%s:%d: a row is one line" % (SOURCE, number))
        if not row:
            continue
        kind, a = row.group(1), arguments(row.group(2))
        names = {
            "FIELD": ("struct", "since", "offset", "name", "doc"),
            "SIZE": ("struct", "offset"),
            "SLOT": ("struct", "since", "offset", "need", "ret", "name", "params", "doc"),
            "SLOT_PROC": ("struct", "since", "offset", "need", "name", "params", "doc"),
            "FN": ("since", "ret", "name", "params", "args", "doc"),
            "PROC": ("since", "name", "params", "args", "doc"),
            "BY_HAND": ("since", "ret", "name", "params", "doc"),
        }[kind]
        if len(a) != len(names):
            raise SystemExit("%s:%d: %d arguments, not %d" % (SOURCE, number, len(a), len(names)))
        d = dict(zip(names, a))
        if "params" in d:
            d["type"] = "%s %s" % (d.get("ret", "void"), d["params"])
        d["doc"] = d.get("doc", '""')[1:-1]
        rows.append((section, kind, d))
    return rows


def locked_lines(rows):
    """{struct or table: [line]}, both in order."""
    promised = {name for name, _, locked, _ in SECTIONS if locked}
    out, place = {}, {}
    for section, kind, d in rows:
        if section not in promised:
            continue
        owner = d.get("struct", section.lower() + " table")
        if kind == "FIELD":
            line = "field %s.%s at %s since 1.%s" % (owner, d["name"], d["offset"], d["since"])
        elif kind == "SIZE":
            line = "size %s %s" % (owner, d["offset"])
        elif kind in ("SLOT", "SLOT_PROC"):
            line = "slot %s.%s at %s since 1.%s need %s : %s" % (owner, d["name"], d["offset"], d["since"], d["need"], d["type"])
        else:
            place[owner] = place.get(owner, 0) + 8  # behind struct_size
            line = "function %s.%s at %d since 1.%s : %s" % (owner, d["name"], place[owner], d["since"], d["type"])
        out.setdefault(owner, []).append(line)
    out.update(promised_words())
    return out


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def opcodes():
    """[(name, text, arity, class)] by number."""
    listed = re.search(r"#define TC_KOP_LIST\(X\)(.*?)\n// clang-format on", text_of("sdk/include/tc/kernel.h"), re.S).group(1)
    listed = re.sub(r"/\*.*?\*/", " ", listed.replace("\\\n", "\n"), flags=re.S)
    return re.findall(r"X\(\s*(\w+),\s*\"([\w.]+)\",\s*(-?\d+),\s*'(\w)'\)", listed)


def numbers(path):
    """{first name of an enumeration: [(name, value)]}; counts are no promise."""
    out = {}
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text_of(path), flags=re.S)
    for body in re.findall(r"\benum\s*\w*\s*\{([^{}#]*)\}", text):
        value, group = -1, []
        for item in filter(None, (i.strip() for i in body.split(","))):
            name, _, given = (i.strip() for i in item.partition("="))
            if given and not re.fullmatch(r"[\dxXa-fA-Fu<()| -]+", given):
                raise SystemExit("%s: '%s' is no number" % (path, given))
            value = eval(re.sub(r"(?<=\d)u", "", given)) if given else value + 1  # digits and shifts, see above
            group.append((name, value))
        group = [(n, v) for n, v in group if not n.endswith("_COUNT")]
        if group:
            out[group[0][0]] = group
    return out


def rules(path):
    """{left side: rule in one line} of the grammar in a file's first comment."""
    lines = []
    for line in text_of(path).split("\n"):
        body = line[5:] if line.startswith("//   ") else None
        if body is not None and (lines or ":=" in body):
            lines.append(body)
        elif lines:
            break
    text = " ".join(" ".join(lines).split())
    parts = re.split(r"(?:^|[; ] ?)(\w+) := ", text)
    return {parts[i]: parts[i + 1].strip().rstrip(";") for i in range(1, len(parts), 2)}


def promised_words():
    """{list: [line]} of what tables cannot say."""
    out = {"opcode list": ["opcode %d TC_K_%s %s operands %s class %s" % ((i,) + x) for i, x in enumerate(opcodes())]}
    listed = re.search(r"#define TC_DTYPE_LIST\(X\)(.*?)\n\n", text_of(HEADERS[0]), re.S).group(1)
    out["dtype list"] = ["dtype %s TC_%s %s bytes %s class %s" % (n, name, text, size, cls) for name, n, text, size, cls in
                     re.findall(r"X\((\w+), (\d+), \"(\w+)\", (\d+), '(\w)'", listed)]
    listed = re.search(r"#define TC_STATUS_LIST\(X\)(.*?)\n\n", text_of(HEADERS[0]), re.S).group(1)
    out["status list"] = ["status %s TC_STATUS_%s" % (n, name) for name, n in re.findall(r"X\((\w+), (\d+),", listed)]
    for name, value in re.findall(r"^#define (TC_\w+\(\w+\)) (\S.*)$", text_of("sdk/include/tc/template.h"), re.M):
        out["define " + name.split("(")[0]] = ["define %s %s" % (name, value)]
    for path in HEADERS:
        for first, group in numbers(path).items():
            out["numbers of " + first] = ["number %s = %d of %s" % (n, v, first) for n, v in group]
    text = text_of(BODIES)
    calls = re.findall(r'tc_sv_is\(name, "(\w+)"\) && n == (\d)', text)
    calls += [(name, "more than %d" % (int(n) - 1)) for name, n in re.findall(r'tc_sv_is\(name, "(\w+)"\) && x->n > (\d)', text)]
    calls += re.findall(r'^    \{"(\w+)", ".*", (\d)\},$', text, re.M)
    for name, n in sorted(set(calls)):
        out["call " + name] = ["call %s takes %s" % (name, n)]
    for name, path in GRAMMARS.items():
        for left, right in rules(path).items():
            out["rule %s of %s" % (left, name)] = ["rule %s of %s := %s" % (left, name, right)]
    return out


def owner_of(line):
    """The struct, table or list that a line of the lock belongs to."""
    for pattern, owner in ((r"function (.* table)\.", "%s"), (r"(?:field|slot|size) ([^. ]+)", "%s"), (r"(opcode|dtype|status) ", "%s list"),
                           (r"(call \S+|define \w+)", "%s"), (r"number .* of (\S+)$", "numbers of %s"), (r"(rule \S+ of \S+) := ", "%s")):
        found = re.match(pattern, line)
        if found:
            return owner % found.group(1)
    raise SystemExit("%s: '%s' is no line of a lock" % (LOCK, line))


def keeps(old, new):
    return new == old or (old.startswith("rule ") and new.startswith(old + " | "))


def read_lock():
    out = {}
    path = os.path.join(ROOT, LOCK)
    if not os.path.exists(path):
        return out
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line and not line.startswith("#"):
                out.setdefault(owner_of(line), []).append(line)
    return out


def page(rows):
    text = [
        "# The plugin interface, slot by slot",
        "",
        "Made from `sdk/abi/abi.def` by `ci/abi.py`; do not edit. The headers in `sdk/include/tc` say what each thing means in",
        "full, this page what lies where and since when. What is marked *locked* never changes within version 1: rows are only",
        "appended (`sdk/abi/abi-1.lock`). Levels 2 and 3 are locked since 1.5, with their opcodes, numbers and grammars: plugins that",
        "were built for an earlier version and have them need the very headers of the program (`TC_KERNEL_ABI_HASH`). An opcode that",
        "a plugin does not know comes of a later version: its `compile` refuses the kernel, and the host does what it was for otherwise.",
        "",
        "A plugin is trusted code: it runs in the program's process with all its rights.",
    ]
    for name, title, locked, what in SECTIONS:
        text += ["", "## %s%s" % (title, " (locked)" if locked else ""), "", what]
        owner = None
        for section, kind, d in rows:
            if section != name or kind == "SIZE":
                continue
            here = d.get("struct", "")
            if here != owner:
                text += ["", "### `%s`" % here if here else "", "", "| offset | slot | since | needed by | what |", "|---|---|---|---|---|"] \
                    if here else ["", "| function | since | what |", "|---|---|---|"]
                owner = here
            doc = d["doc"].replace("|", "\\|").replace('\\"', '"')
            if kind == "FIELD":
                text.append("| %s | `%s` | 1.%s | | %s |" % (d["offset"], d["name"], d["since"], doc))
            elif kind in ("SLOT", "SLOT_PROC"):
                need = ", ".join(n.strip().replace("TC_CAP_", "").lower() for n in d["need"].split("|")) if d["need"] != "0" else ""
                text.append("| %s | `%s` | 1.%s | %s | %s |" % (d["offset"], d["name"], d["since"], need, doc))
            else:
                text.append("| `%s %s%s` | 1.%s | %s |" % (d.get("ret", "void"), d["name"], d["params"], d["since"], doc))
    text += ["", "## Opcodes (locked)", "", "The instructions of kernels (`tc/kernel.h`). Classes: a arithmetic, c comparison, t with a type of its own, s structure and",
             "memory, m functions that the core takes apart before plugins see kernels. Operands: - where their number varies.", "",
             "| number | opcode | text | operands | class |", "|---|---|---|---|---|"]
    text += ["| %d | `TC_K_%s` | `%s` | %s | %s |" % (i, name, word, "-" if arity == "-1" else arity, cls)
             for i, (name, word, arity, cls) in enumerate(opcodes())]
    return "\n".join(text) + "\n"


def broken(promised, have):
    """Which of the promised lines is not kept, or None."""
    return next((i for i, line in enumerate(promised) if i >= len(have) or not keeps(line, have[i])), None)


def faults():
    """What is wrong, in words; nothing if all is well."""
    rows = read()
    now, lock = locked_lines(rows), read_lock()
    out = []
    for owner, lines in lock.items():
        have = now.get(owner, [])
        i = broken(lines, have)
        if i is not None:
            out.append("%s: '%s' is promised by version 1 and was changed, moved or removed%s" %
                       (LOCK, lines[i], "; now: '%s'" % have[i] if i < len(have) else ""))
    for owner, lines in now.items():
        old = lock.get(owner, [])
        for i, line in enumerate(lines):
            if i < len(old) and (line == old[i] or not keeps(old[i], line)):
                continue
            out.append("%s: '%s' is not in the lock: python3 ci/abi.py --write appends it" % (LOCK, line))
    with open(os.path.join(ROOT, PAGE), encoding="utf-8") as file:
        if file.read() != page(rows):
            out.append("%s is not what %s says: python3 ci/abi.py --write makes it" % (PAGE, SOURCE))
    return out


def write():
    rows = read()
    now, lock = locked_lines(rows), read_lock()
    for owner, lines in lock.items():
        if broken(lines, now.get(owner, [])) is not None:
            raise SystemExit("%s: what it promises of %s was changed; that is not appended but refused" % (LOCK, owner))
    with open(os.path.join(ROOT, LOCK), "w", encoding="utf-8") as file:
        file.write("# Version 1 of the plugin interface, as it is promised. Lines are appended by ci/abi.py, never changed.\n")
        for lines in now.values():
            file.write("\n" + "\n".join(lines) + "\n")
    with open(os.path.join(ROOT, PAGE), "w", encoding="utf-8") as file:
        file.write(page(rows))


def main():
    if sys.argv[1:] == ["--write"]:
        return write()
    if sys.argv[1:] not in ([], ["--check"]):
        raise SystemExit(__doc__)
    found = faults()
    print("\n".join(found + ["%d faults" % len(found)]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

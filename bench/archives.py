"""bench/compare --models: archives with stored inputs beside PyTorch's eager mode and torch.compile, in turns in one run.

A folder has an index.jsonl with a line for each model: its name, its inputs (constants among them), and by "files" the archive of
the training dialect; NAME.safetensors holds the inputs as in.0, in.1, … Each model is taken by itself, so a row is complete when
it is kept: outputs are compared with eager PyTorch's first, then come rounds in which each contender runs for a while. A ratio is
the best peer's time by tc's, of medians, and of the least times, which a machine that others use moves little. A run's bytes are the most that
a call has at once beside its inputs and what stays from call to call: tc's arena and results, PyTorch's own account of allocations;
what stays is tc's weights that were packed or folded, beside all of PyTorch's weights.
Cold is what tc takes to compile with an empty cache (and by how much processor time a process is dearer than the second, which
says more on a machine that others use), second what a second process takes and how many kernels it makes.
"""
import ast
import csv
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

FIELDS = ("name", "real", "eager_ms", "compile_ms", "tc_ms", "ratio", "eager_min_ms", "compile_min_ms", "tc_min_ms", "ratio_min",
          "tc_run", "eager_run", "tc_kept", "weights", "cold_ms", "cold_cpu_ms", "second_ms", "second_makes", "difference", "threads", "note")
MOST = {2: 5e-2}  # relative differences of outputs by bytes of a number
MOST_WIDE = 1e-3
NOT_REAL = ("complex", "fft", "stft", "polar", "as_real", "hermitian")


def is_real(row):
    """Whether neither inputs nor ops of the program are about complex numbers."""
    targets = row["files"]["training"]["targets"]
    return not any("complex" in i.get("dtype", "") for i in row["inputs"]) and not any(word in t for t in targets for word in NOT_REAL)


def cpu_of_children():
    t = os.times()
    return t.children_user + t.children_system


class Model:
    def __init__(self, args, row):
        self.args, self.row, self.name = args, row, row["name"]
        self.archive = str(args.models / row["files"]["training"]["file"])
        self.inputs = str(args.models / (self.name + ".safetensors"))

    def tcrun(self, command, *options, cache=None):
        env = dict(os.environ, XDG_CACHE_HOME=cache) if cache else None
        line = [self.args.tcrun, command, self.archive, f"--inputs={self.inputs}", "--backend=cpu", f"--threads={self.args.threads}", *options]
        out = subprocess.run(line, capture_output=True, text=True, env=env)
        if out.returncode:
            raise RuntimeError((out.stderr.strip().splitlines() or ["tcrun failed"])[0])
        return out.stdout

    def bench(self, *options, cache=None):
        return json.loads(self.tcrun("bench", "--json", "--unchecked", *options, cache=cache).strip().splitlines()[-1])

    def compile_times(self):
        """Of a process with an empty cache, and of the one behind it."""
        with tempfile.TemporaryDirectory() as cache:
            marks, made = [cpu_of_children()], []
            for _ in range(2):
                made.append(self.bench("--runs=1", cache=cache))
                marks.append(cpu_of_children())
        cold, second = made
        return {"cold_ms": cold["compile_ms"], "cold_cpu_ms": (2 * marks[1] - marks[0] - marks[2]) * 1e3, "second_ms": second["compile_ms"], "second_makes": second["kernels_made"]}

    def difference(self, peer):
        output = str(self.args.scratch / (self.name + ".out.safetensors"))
        self.tcrun("run", f"--output={output}", "--quiet")
        outputs = peer.ask(compare=output)
        pathlib.Path(output).unlink()
        if isinstance(outputs, str):
            raise RuntimeError(outputs)
        for i, o in enumerate(outputs):
            if not o["relative"] <= MOST.get(o["bytes"], MOST_WIDE) or o["finite_in_one"]:
                raise RuntimeError(f"output {i} differs from PyTorch's by {o['relative']:.1e}, {o['finite_in_one']} elements are finite in one only")
        return max((o["relative"] for o in outputs), default=0.0)

    def measure(self, peer):
        constants = {i["index"]: ast.literal_eval(i["constant"]) for i in self.row["inputs"] if "constant" in i}
        loaded = peer.ask(load=self.archive, inputs=self.inputs, kinds=["eager", "default"], constants=constants)["errors"]
        if "all" in loaded or "eager" in loaded:
            raise RuntimeError(f"PyTorch: {loaded}")
        result = {"name": self.name, "real": is_real(self.row), "threads": self.args.threads, "note": loaded.get("default", "")}
        result["difference"] = self.difference(peer)
        peak = peer.ask(peak="eager")
        result["eager_run"], result["weights"] = peak["peak_bytes"], peak["weight_bytes"]
        result.update(self.compile_times())
        times = {"eager": [], "tc": []} if loaded else {"eager": [], "compile": [], "tc": []}
        for _ in range(self.args.rounds):
            for kind, asked in (("eager", "eager"), ("compile", "default")):
                if kind in times:
                    times[kind].append(peer.ask(time=asked))
            ours = self.bench()
            times["tc"].append(ours)
            result["tc_kept"], result["tc_run"] = ours["kept_bytes"], ours["peak_bytes"] - ours["kept_bytes"]
        for kind, rounds in times.items():
            result[kind + "_ms"] = statistics.median(r["median_ms"] for r in rounds)
            result[kind + "_min_ms"] = min(r["min_ms"] for r in rounds)
        for end in ("", "_min"):
            result["ratio" + end] = min(result[k + end + "_ms"] for k in times if k != "tc") / result["tc" + end + "_ms"]
        return result


def show(rows):
    """Geometric mean and least of each column that has a goal."""
    for title, chosen in (("all", rows), ("real", [r for r in rows if r["real"]])):
        if not chosen:
            continue
        for column, what in (("ratio", "best peer / tc"), ("ratio_min", "the same of least times")):
            least = min(chosen, key=lambda r: r[column])
            print(f"{title:5} {len(chosen):3} models, {what}: geometric mean {statistics.geometric_mean(r[column] for r in chosen):.2f}, lowest {least[column]:.2f} ({least['name']})")
    if rows:
        slow = max(rows, key=lambda r: r["cold_ms"])
        print(f"cold compile: geometric mean {statistics.geometric_mean(r['cold_ms'] for r in rows):.0f} ms, most {slow['cold_ms']:.0f} ms ({slow['name']}); second process: most {max(r['second_ms'] for r in rows):.1f} ms, {sum(r['second_makes'] for r in rows)} kernels made")
        for what, ours, theirs in (("memory of a run", lambda r: r["tc_run"], lambda r: r["eager_run"]), ("memory with weights", lambda r: r["tc_run"] + r["tc_kept"], lambda r: r["eager_run"] + r["weights"])):
            more = [f"{r['name']} ({ours(r)} > {theirs(r)})" for r in rows if ours(r) > theirs(r)]
            print(f"{what} above PyTorch's: {', '.join(more) or 'none'}")


def save(path, rows, python):
    path.with_suffix(".json").write_text(json.dumps(rows, indent=1))
    with open(path.with_suffix(".csv"), "w", newline="") as f:
        writer = csv.DictWriter(f, FIELDS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    subprocess.run([python, pathlib.Path(__file__).parent / "plot.py", path.with_suffix(".json"), path.with_suffix(".png")], check=False)


def main(args, process, python):
    path = args.scratch / f"{args.table}.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    index = [json.loads(line) for line in open(args.models / "index.jsonl")]
    wanted = [r for r in index if "training" in r["files"] and (r["name"] in args.names if args.names else True)]
    if not args.again:
        wanted = [r for r in wanted if r["name"] not in {x["name"] for x in rows}]
    peer = process(python, pathlib.Path(__file__).parent / "peer.py", "many", "cpu", env=dict(os.environ, OMP_NUM_THREADS=str(args.threads)))
    print(f"{'model':34} {'eager':>9} {'compile':>9} {'tc':>9} ms   ratio   least   {'run':>9} {'eager':>9} {'kept':>9} {'weights':>9}   cold ms  second   difference")
    failed = 0
    for row in wanted:
        try:
            r = Model(args, row).measure(peer)
        except RuntimeError as error:
            print(f"{row['name']:34} {error}", flush=True)
            failed += 1
            continue
        rows = [x for x in rows if x["name"] != r["name"]] + [r]
        compiled = f"{r['compile_ms']:9.4f}" if "compile_ms" in r else f"{'—':>9}"
        print(f"{r['name']:34} {r['eager_ms']:9.4f} {compiled} {r['tc_ms']:9.4f}    {r['ratio']:6.2f}× {r['ratio_min']:6.2f}×  {r['tc_run']:9} {r['eager_run']:9} {r['tc_kept']:9} {r['weights']:9}   {r['cold_ms']:7.0f} {r['second_ms']:7.1f}   {r['difference']:.1e} {r['note'][:60]}", flush=True)
        save(path, rows, python)
    peer.close()
    show(rows)
    return 1 if failed else 0

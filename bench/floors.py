"""bench/compare --floors: workloads beside what their bytes or their products cost on this machine at least, in turns in one run.

Pointwise work, norms and softmax are held to a copy of as many bytes (the better of memcpy and streaming stores), sums to reading
them (bench/floors.c, the same threads), and what products make up to the rate that PyTorch's library reaches in the products of the
very program: the share is the rate of all its operations, what is between the products included, by the library's.
"""
import json
import os
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
FLOORS = {
    "copy": ("pointwise_chain_f32", "softmax_f32", "layernorm_residual_f32", "rmsnorm_bf16"),
    "read": ("sum_all_f32", "colsum_f32"),
    "products": ("attention_b1", "attention_b4", "complex_matmul", "complex_mlp_modrelu", "gpt_block_f32", "gpt_block_bf16"),
}


def bench(args, archive, inputs):
    line = [args.tcrun, "bench", archive, f"--inputs={inputs}", "--backend=cpu", f"--threads={args.threads}", "--json", "--unchecked"]
    return json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip().splitlines()[-1])


def moved(args, kind, bytes_moved):
    program = pathlib.Path(args.tcrun).parent / "floors"
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads), OMP_PROC_BIND="true")
    return json.loads(subprocess.run([program, kind, str(bytes_moved)], capture_output=True, text=True, check=True, env=env).stdout)


def bytes_of(row, result):
    """What the program reads and writes at least: its inputs and its results."""
    return result["input_bytes"] + result["output_bytes"]


def main(args, rows, process, python, draw_inputs):
    peer = None
    print(f"{'workload':26} {'floor':>10} {'median ms':>10} {'tc':>10}   tc / floor   least   (products: share of the library's rate)")
    results = []
    for kind, names in FLOORS.items():
        for row in (r for r in rows if r["name"] in names):
            archive, inputs = str(args.workloads / row["file"]), str(args.scratch / (row["name"] + ".safetensors"))
            draw_inputs(row, inputs)
            if kind == "products" and not peer:
                peer = process(python, HERE / "peer.py", "many", "cpu", env=dict(os.environ, OMP_NUM_THREADS=str(args.threads)))
            if kind == "products":
                errors = peer.ask(load=archive, inputs=inputs, kinds=["eager"])["errors"]
                if errors:
                    print(f"{row['name']:26} {errors}")
                    continue
            ours, floors = [], []
            for _ in range(args.rounds):
                ours.append(bench(args, archive, inputs))
                floors.append(peer.ask(products="eager") if kind == "products" else moved(args, kind, bytes_of(row, ours[-1])))
            line = {"name": row["name"], "floor": kind}
            for key, pick in (("median_ms", statistics.median), ("min_ms", min)):
                tc, floor = pick(x[key] for x in ours), pick(x[key] for x in floors)
                line[key] = {"tc": tc, "floor": floor, "ratio": floor / tc if kind == "products" else tc / floor}
            results.append(line)
            m = line["median_ms"]
            print(f"{row['name']:26} {kind:>10} {m['floor']:10.3f} {m['tc']:10.3f}   {m['ratio']:8.2f}   {line['min_ms']['ratio']:8.2f}", flush=True)
    if peer:
        peer.close()
    (args.scratch / "floors.json").write_text(json.dumps(results, indent=1))
    return 0

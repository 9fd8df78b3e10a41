"""The plot of a table that bench/compare keeps: best peer / tc of each row, in order, on a logarithmic scale.

    python bench/plot.py bench/out/models.json bench/out/models.png
"""
import json
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plot


def main():
    rows = sorted((r for r in json.load(open(sys.argv[1])) if r.get("ratio")), key=lambda r: r["ratio"])
    if not rows:
        return
    ratios = [r["ratio"] for r in rows]
    mean = statistics.geometric_mean(ratios)
    figure, axes = plot.subplots(figsize=(9, 1 + 0.22 * len(rows)))
    axes.barh([r["name"] for r in rows], ratios, color=["#2a7" if x >= 1 else "#c43" for x in ratios])
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.axvline(mean, color="#36c", linewidth=1, linestyle="--", label=f"geometric mean {mean:.2f}")
    axes.set_xlabel("best peer's time / tc's time (above 1: tc is faster)")
    axes.legend(loc="lower right")
    axes.margins(y=0.01)
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=120)


if __name__ == "__main__":
    main()

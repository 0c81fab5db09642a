"""``make bench``: run every benchmark of this folder, each in its own process, and print its figures.

Speed is compared inside one run: read the ratios, the absolute figures are those of this machine today.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(wanted: list[str]) -> int:
    names = [path.stem for path in sorted(HERE.glob("bench_*.py"))]
    unknown = [name for name in wanted if f"bench_{name}" not in names]
    if unknown:
        print(f"unknown benchmark {unknown[0]}; there are {', '.join(name.removeprefix('bench_') for name in names)}")
        return 2
    worst = 0
    for name in names:
        if not wanted or name.removeprefix("bench_") in wanted:
            print(f"== {name.removeprefix('bench_')}", flush=True)
            worst = max(worst, subprocess.run([sys.executable, "-m", f"tests.bench.{name}"], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

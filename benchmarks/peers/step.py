#!/usr/bin/env python3
"""A private step of Ripieno and of its peers in Python, each over a plain step of the same model, in one run.

    $(benchmarks/peers/setup step) benchmarks/peers/step.py [--rounds 10] [--threads 1 2] [--out FILE.jsonl] [MODEL ...]

Every kind of step has a process of its own. In each round each makes one step in turn while the others wait, so that all
of them meet the same load. Ripieno takes the model as TorchScript (bench-script-step); its steps are set against a plain
step of that file in LibTorch, the peers' against a plain step in PyTorch: same model, batch and thread count, the same
malloc settings for all. Printed are ratios of medians, with those
of minima in brackets; CPU times say little at more than one thread, because waiting threads spin. Peak memory is that
of the whole process, Python's share included. A peer that refuses a model, runs out of 12 GiB or takes more than the
time limit for one step is reported as such.
"""

import argparse
import json
import os
import pathlib
import select
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["mlp-256", "mlp-2048", "cnn-256", "cnn-2048", "transformer", "resnet", "lstm"]
OWN = ["plain", "private", "noised"]
PEERS = ["plain", "opacus-hooks", "opacus-ghost", "torch-func", "opake"]
# Buffers stay in the heap; otherwise mapping fresh pages at every step would be part of what is measured.
MALLOC = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=2000000000"}


class Worker:
    """A process that makes one step for each line it is sent."""

    def __init__(self, name, command):
        self.name, self.answers, self.failure = name, [], None
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, **MALLOC})

    def step(self, limit_s):
        """Makes a step; afterwards `failure` says why there will be no more."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.fail()
        if not select.select([self.process.stdout], [], [], limit_s)[0]:
            self.failure = f"does not finish a step in {limit_s} s"
            return self.stop()
        line = self.process.stdout.readline()
        if not line:
            return self.fail()
        return self.answers.append(json.loads(line))

    def fail(self):
        self.process.wait()
        self.errors.seek(0)
        lines = [line for line in self.errors.read().splitlines() if line.strip()]
        self.failure = "refuses: " + (lines[-1][:100] if lines else f"exit code {self.process.returncode}")
        self.stop()

    def stop(self):
        self.process.kill()
        self.process.wait()

    def median(self, key):
        return statistics.median(answer[key] for answer in self.answers)

    def result(self, base):
        """The line about this kind of step, relative to the worker `base`."""
        if self.failure or base.failure:
            return {"kind": self.name, "failure": self.failure or "nothing to compare with"}
        walls, base_walls = ([a["wall_ms"] for a in worker.answers] for worker in (self, base))
        return {
            "kind": self.name,
            "wall_ms": self.median("wall_ms"),
            "wall_ratio": self.median("wall_ms") / base.median("wall_ms"),
            "wall_ratio_of_minima": min(walls) / min(base_walls),
            "cpu_ratio": self.median("cpu_ms") / base.median("cpu_ms"),
            "peak_mib": self.answers[-1]["peak_mib"],
            "peak_ratio": self.answers[-1]["peak_mib"] / base.answers[-1]["peak_mib"],
        }


def measure(model, files, threads, options):
    paths = [f"{files}/model.pt", f"{files}/batch.pt"]
    own = [Worker(f"ripieno {kind}", [options.bench, kind, *paths, str(threads)]) for kind in OWN]
    worker = str(HERE / "step_worker.py")
    peers = [Worker(f"python {kind}", [sys.executable, worker, kind, model, str(threads)]) for kind in PEERS]
    everyone = own + peers
    try:
        for round_number in range(-options.warm_up, options.rounds):
            if round_number == 0:
                for each in everyone:
                    each.answers.clear()
            for each in everyone:
                if not each.failure:
                    each.step(options.limit)
    finally:
        for each in everyone:
            each.stop()
    return [each.result(own[0]) for each in own] + [each.result(peers[0]) for each in peers]


def row(result):
    if "failure" in result:
        return f"  {result['kind']:<22} {result['failure']}"
    return (f"  {result['kind']:<22} {result['wall_ms']:9.2f} ms   wall {result['wall_ratio']:6.2f} "
            f"[{result['wall_ratio_of_minima']:.2f}]   cpu {result['cpu_ratio']:6.2f}   "
            f"peak {result['peak_mib']:6.0f} MiB, {result['peak_ratio']:.2f}")


def report(model, threads, results, out):
    print(f"{model}, {threads} thread{'s' if threads > 1 else ''}, over the plain step", flush=True)
    for result in results:
        print(row(result), flush=True)
        if out:
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps({"model": model, "threads": threads, **result}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that are not counted")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--limit", type=int, default=120, help="seconds for one step")
    parser.add_argument("--bench", default=str(HERE.parent.parent / "build/cpu/bin/bench-script-step"))
    parser.add_argument("--out", help="write one line of JSON for each result")
    options = parser.parse_args()
    unknown = sorted(set(options.models) - set(MODELS))
    if unknown:
        parser.error(f"no model is called {', '.join(unknown)} (there are {', '.join(MODELS)})")
    for model in options.models or MODELS:
        with tempfile.TemporaryDirectory() as files:
            subprocess.run([sys.executable, HERE / "step_models.py", model, files], check=True)
            for threads in options.threads:
                report(model, threads, measure(model, files, threads, options), options.out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains on two ranks from datasets with one bad part each, and from datasets that change meanwhile.

    bad_shards_test.py SOURCE BUILD

Every rank ends with the exit code of bad data within a deadline, one error line names the file and its fault, and no
step is released: there is no ledger record and no model. What changes during a run stops it before the next release.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import h5py

DATA = 3
SECONDS = 60  # none takes five on an idle machine
PLAN = ["--clipping-norm", "1", "--delta", "1e-5", "--lr", "1", "--noise-multiplier", "1", "--threads", "1", "-q"]
GOOD = ["good_0.h5", "good_1.h5", "good_2.h5"]
EXAMPLES = {"nan_f32.h5": 8, "csr_good.h5": 3, "csr_start.h5": 3, "csr_oov.h5": 3, "zero_len.h5": 0}  # 32 of all others

# A shard in the place of good_1.h5, and what the error says besides its name.
INSTEAD_OF_ONE = {
    "truncated_tail.h5": "the file is truncated",
    "empty_file.h5": "it is empty",
    "wrong_magic.h5": "no HDF5 signature",
    "actually_zip.h5": "zip archive",
    "lfs_pointer.h5": "git lfs pull",
    "garbage_header.h5": "corrupt metadata",
    "missing_x.h5": "no dataset 'x'",
    "missing_y.h5": "no dataset 'y'",
    "renamed_keras.h5": "x_train",
    "no_attrs.h5": "no dpshard format attributes",
    "libver_latest.h5": "no dpshard format attributes",
    "future_version.h5": "format version 99",
    "shape_32x32.h5": "[32, 32]",
    "len_mismatch.h5": "differ in length",
    "count_attr_lies.h5": "num_examples is 40",
    "nan_f32.h5": "",
    "f64.h5": "float64",
    "big_endian_f32.h5": "big-endian",
    "label_10.h5": "out of range",
    "shard_index_clash.h5": "shard_index",
    "vds_missing_source.h5": "is virtual",
    "external_link.h5": "external link",
    "unallocated.h5": "never written",
    "chunk_bomb.h5": "never written",
    "unknown_filter.h5": "filter 32999",
    "vlen_tokens.h5": "variable length",
    "csr_good.h5": "dataset_id",
}
# A set of one shard.
ALONE = {"csr_start.h5": "does not start at 0", "csr_oov.h5": "out of range", "zero_len.h5": ""}
# What a path in the place of good_1.h5 may lead to: how it is made, and what the error says.
PATHS = {
    "folder.h5": (pathlib.Path.mkdir, "it is a folder"),
    "fifo.h5": (os.mkfifo, "it is a FIFO"),
    "dangling.h5": (lambda path: path.symlink_to("nowhere.h5"), "does not exist"),
    "loop.h5": (lambda path: path.symlink_to("loop.h5"), "leads back to itself"),
    "link.h5": (lambda path: path.symlink_to("good_0.h5"), "same file"),
    "absent.h5": (lambda path: None, "no such file"),
}


class Run:
    """`ripieno-train` on two ranks, each of which tells its exit code."""

    def __init__(self, build, folder, data, *options):
        self.out = folder / "out"
        script = '"$@"; echo "rank $OMPI_COMM_WORLD_RANK ends with $?"'
        self.process = subprocess.Popen(
            ["mpiexec", "--oversubscribe", "--bind-to", "none", "-n", "2", "sh", "-c", script, "sh",
             build / "bin/ripieno-train", "--data", data, *PLAN, *options, "--out", self.out],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)

    def records(self):
        ledger = self.out / "ledger.jsonl"
        return ledger.read_text().count('{"seg":') if ledger.exists() else 0

    def faults(self, code, *texts):
        """What is wrong with how the run ends; empty when nothing is."""
        try:
            output, errors = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.process.terminate()  # mpiexec ends the ranks
            self.process.wait()
            return [f"still runs after {SECONDS} s"]
        faults = [f"rank {rank} does not end with {code}" for rank in range(2)
                  if f"rank {rank} ends with {code}\n" not in output]
        lines = [line for line in errors.splitlines() if "ripieno-train: error: " in line]
        if len(lines) != (1 if code else 0):
            faults.append(f"{len(lines)} error lines")
        faults += [f"does not say '{text}'" for text in texts if text not in errors]
        if code and (self.out / "model.h5").exists():
            faults.append("leaves a model")
        return faults and [*faults, output.strip(), errors.strip()]


def make_set(source, folder, shards):
    """The manifest of these shards, which are copied where they are files of `source`."""
    for shard in shards:
        if (source / shard).exists():
            shutil.copyfile(source / shard, folder / shard)
    manifest = {"format": "dpshard-manifest", "version": 1,
                "shards": [{"path": name, "num_examples": EXAMPLES.get(name, 32)} for name in shards]}
    (folder / "set.json").write_text(json.dumps(manifest))
    return folder / "set.json"


def refused(build, source, folder, shards, name, text, *options):
    """A dataset that must stop the run before its first step."""
    run = Run(build, folder, make_set(source, folder, shards), "--steps", "5", "--expected-batch", "20", *options)
    faults = run.faults(DATA, name, text)
    return [*faults, "released a step"] if run.records() else faults


def bad_path(build, source, folder, name):
    make, text = PATHS[name]
    make(folder / name)
    return refused(build, source, folder, [GOOD[0], name, GOOD[2]], name, text)


def without_permission(build, source, folder):
    """As another user, since root reads everything."""
    data = make_set(source, folder, GOOD)
    (folder / GOOD[1]).chmod(0)
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        folder.chmod(0o777)
    else:
        command = []
    done = subprocess.run([*command, build / "bin/ripieno-dataset", "verify", data], capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    if done.returncode == DATA and GOOD[1] in done.stderr and "no permission" in done.stderr:
        return []
    return [f"exit code {done.returncode}", done.stderr.strip()]


def changed(build, source, folder, change):
    """A shard that changes while the run goes on."""
    shard = folder / GOOD[1]
    run = Run(build, folder, make_set(source, folder, GOOD), "--steps", "200000", "--expected-batch", "20")
    deadline = time.monotonic() + SECONDS
    while run.records() < 3 and run.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    change(shard)
    faults = run.faults(DATA, GOOD[1])
    analysis = subprocess.run([build / "bin/ripieno-privacy", "analyze", run.out / "ledger.jsonl", "--delta", "1e-5"],
                              capture_output=True, text=True, check=False)
    return [*faults, "its ledger is broken", analysis.stderr] if analysis.returncode else faults


def replace(shard):
    copy = shard.with_suffix(".copy")
    shutil.copyfile(shard, copy)
    copy.rename(shard)


def append(shard):
    with shard.open("ab") as file:
        file.write(b"x")


def not_finite(build, source, folder, verify, code, *texts):
    """A set of one shard, where example 3 of 8 has a NaN: with --verify open it is drawn, and contributes zero."""
    data = make_set(source, folder, ["nan_f32.h5"])
    with h5py.File(folder / "nan_f32.h5", "a") as file:
        file.attrs.update(shard_index=0, shard_count=1, example_offset=0)
    run = Run(build, folder, data, "--steps", "20", "--expected-batch", "4", "--verify", verify)
    faults = run.faults(code, *texts)
    if run.records() != (0 if code else 20):
        faults.append(f"{run.records()} records")
    return faults


def main():
    source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    shards = source / "tests/data/bad-shards"
    full = ("--verify", "full")
    tests = {f"{name} among good ones": (refused, [GOOD[0], name, GOOD[2]], name, text, *full)
             for name, text in INSTEAD_OF_ONE.items()}
    tests |= {f"{name} alone": (refused, [name], name, text, *full) for name, text in ALONE.items()}
    tests |= {"a flipped bit": (refused, ["bitflip_data.h5", *GOOD[1:]], "bitflip_data.h5", "checksum", *full),
              "a shard and its copy": (refused, [*GOOD, "dup_copy_of_good_1.h5"], "dup_copy_of_good_1.h5", "copies"),
              "a shard that is missing": (refused, [GOOD[0], GOOD[2]], "", "shard 1"),
              "no permission": (without_permission,),
              "a NaN": (not_finite, "full", DATA, "nan_f32.h5", "example 3 is not finite"),
              "a NaN that is not looked for": (not_finite, "open", 0),
              "an empty shard in the place of another": (
                  refused, [GOOD[0], "zero_len.h5", GOOD[2]], "", "starts at example 64 (the shards before it end at 32)"),
              "replaced during the run": (changed, replace),
              "cut during the run": (changed, lambda shard: os.truncate(shard, 1024)),
              "longer during the run": (changed, append)}
    tests |= {name: (bad_path, name) for name in PATHS}

    def faults_of(test):
        call, *arguments = test
        with tempfile.TemporaryDirectory(prefix="ripieno-bad-shards-") as folder:
            return call(build, shards, pathlib.Path(folder), *arguments)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(faults_of, tests.values()))
    for name, faults in zip(tests, results):
        if faults:
            print("\n  ".join([name, *faults]))
    print(f"{len(tests)} cases, {sum(bool(faults) for faults in results)} wrong")
    sys.exit(any(results))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Kills a training run again and again, in every way that a cluster knows, and checks its files after each.

    chaos.py [--kills N] [--seed S] [--only EVENT]

Each round resumes the run on some ranks of a Slurm cluster on this machine and does one thing to it at a random moment,
its start included. Then every process must be gone within a deadline, and check_run.py must find nothing wrong. Prints
figures; exit status 1 when anything failed, 77 where there can be no cluster.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/hosts")]
import check_run  # noqa: E402
import hosts  # noqa: E402
import small_training  # noqa: E402


testcluster = hosts.load_script(ROOT / "slurm/testcluster")

SKIPPED = 77
COLLECTIVE_TIMEOUT_S = 20  # after which a rank gives up on others, whatever the launcher knows of them
DEADLINE_S = 60  # by which every process of a job that was hit has ended, on a busy machine too
FAKE_TIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
CHECKPOINTED, DATA, PRIVACY = 85, 3, 4

# How many of sixty rounds do what.
EVENTS = {"kill_a_rank": 20, "kill_all_ranks": 13, "kill_the_launcher": 4, "stop_cleanly": 5, "start_another": 4,
          "fill_the_disk": 4, "write_protect": 3, "turn_the_clock": 3, "cut_a_cable": 2, "kill_slurmd": 2}


class Failure(Exception):
    pass


class Chaos:
    def __init__(self, cluster, disk, seed):
        self.cluster, self.disk, self.random = cluster, disk, random.Random(seed)
        self.out = disk / "out"
        self.data = small_training.make_dataset(disk / "data")
        self.clock = cluster.folder / "clock"
        self.clock.write_text("+0")
        self.content = b""
        self.counts = collections.Counter()

    def command(self):
        return small_training.train_command(self.data, self.out, steps=10**6, checkpoint_every=7, operator_log=None,
                                            collective_timeout=COLLECTIVE_TIMEOUT_S)

    def launch(self, nodes, *options):
        self.log = open(self.cluster.folder / "job.log", "w+")
        keepalive = ["--mca", "oob_tcp_keepalive_time", "2", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca",
                     "oob_tcp_keepalive_probes", "2"]
        return self.cluster.popen("head", ["mpirun", "--host", ",".join(nodes), "--bind-to", "none", *keepalive, *options,
                                           *self.command()], stdout=self.log, stderr=self.log)

    def log_text(self):
        self.log.seek(0)
        return self.log.read()

    def records(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.out / "ledger.jsonl").read_bytes().count(b'{"seg":')
        return 0

    def ranks(self):
        return [pid for host in self.cluster.names for pid in small_training.ranks_on(self.cluster, host)]

    def some_nodes(self):
        return self.random.sample(self.cluster.names, self.random.randint(1, 4))

    def wait_until_it_runs(self, job, before):
        """Until the job has recorded a step: proof that the resume worked."""
        end = time.monotonic() + 60
        while self.records() <= before:
            if job.poll() is not None:
                raise Failure(f"the resume failed with {job.returncode}: {self.log_text()}")
            if time.monotonic() > end:
                raise Failure(f"the resume hangs: {self.log_text()}")
            time.sleep(0.02)
        self.counts["resumes"] += 1

    def survivors(self, job):
        launcher = ["the launcher"] if job.poll() is None else []
        return ", ".join(launcher + [f"a rank on {host}" for host in self.cluster.names
                                     for _ in small_training.ranks_on(self.cluster, host)])

    def wait_until_gone(self, job):
        """Every process of the job, on every host."""
        end = time.monotonic() + DEADLINE_S
        while job.poll() is None or self.ranks():
            if time.monotonic() > end:
                raise Failure(f"processes live on {DEADLINE_S} s after the blow: {self.survivors(job)}; {self.log_text()}")
            time.sleep(0.02)
        return job.returncode

    def start(self, *options):
        """A job, some random time after its start; most often it has made progress by then."""
        before = self.records()
        job = self.launch(self.some_nodes(), *options)
        if self.random.random() < 0.75:
            self.wait_until_it_runs(job, before)
            time.sleep(self.random.uniform(0, 0.6))
        else:
            time.sleep(self.random.uniform(0, 1.5))
        return job

    def kill(self, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_a_rank(self):
        job = self.start()
        ranks = self.ranks()
        self.kill(self.random.sample(ranks, 1) if ranks else self.cluster.processes("head", "mpirun"))
        self.wait_until_gone(job)

    def kill_all_ranks(self):
        job = self.start()
        self.kill(self.ranks() or self.cluster.processes("head", "mpirun"))
        self.wait_until_gone(job)

    def kill_the_launcher(self):
        job = self.start()
        self.kill(self.cluster.processes("head", "mpirun"))
        self.wait_until_gone(job)

    def stop_cleanly(self):
        before = self.records()
        job = self.launch(self.some_nodes())
        self.wait_until_it_runs(job, before)
        os.kill(self.random.choice(self.ranks()), self.random.choice([signal.SIGUSR1, signal.SIGTERM]))
        if (code := self.wait_until_gone(job)) != CHECKPOINTED:
            raise Failure(f"a clean stop ended with {code}: {self.log_text()}")

    def start_another(self):
        """A second job on the folder is refused; the first never notices."""
        before = self.records()
        job = self.launch(["n1", "n2"])
        self.wait_until_it_runs(job, before)
        other = self.cluster.run("head", ["mpirun", "--host", "n3,n4", *self.command()], timeout=DEADLINE_S)
        if other.returncode != PRIVACY:
            raise Failure(f"a second job on the folder ended with {other.returncode}: {other.stdout}{other.stderr}")
        self.wait_until_it_runs(job, self.records())
        self.kill(self.ranks())
        self.wait_until_gone(job)

    def fill_the_disk(self):
        before = self.records()
        job = self.launch(self.some_nodes())
        self.wait_until_it_runs(job, before)
        filler = self.disk / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while file.write(bytes(4096)) == 4096:
                pass
        try:
            code = self.wait_until_gone(job)
        finally:
            filler.unlink()
        if code not in [DATA, PRIVACY]:
            raise Failure(f"on a full disk the run ended with {code}: {self.log_text()}")

    def write_protect(self):
        subprocess.run(["mount", "-o", "remount,ro", self.disk], check=True)
        try:
            code = self.wait_until_gone(self.launch(self.some_nodes()))
        finally:
            subprocess.run(["mount", "-o", "remount,rw", self.disk], check=True)
        if code not in [DATA, PRIVACY]:
            raise Failure(f"in a read-only folder the run ended with {code}: {self.log_text()}")

    def turn_the_clock(self):
        """Hours forth or back while the run goes on, which must not care."""
        before = self.records()
        job = self.launch(self.some_nodes(), "-x", f"LD_PRELOAD={FAKE_TIME}", "-x", f"FAKETIME_TIMESTAMP_FILE={self.clock}",
                          "-x", "FAKETIME_NO_CACHE=1", "-x", "NO_FAKE_STAT=1", "-x", "FAKETIME_DONT_FAKE_MONOTONIC=1")
        self.wait_until_it_runs(job, before)
        self.clock.write_text(self.random.choice(["+7200", "-7200"]))
        self.wait_until_it_runs(job, self.records() + 3)
        self.clock.write_text("+0")
        self.kill(self.ranks())
        self.wait_until_gone(job)

    def cut_a_cable(self):
        before = self.records()
        job = self.launch(["n1", "n2", "n3"])
        self.wait_until_it_runs(job, before)
        node = self.random.choice(["n1", "n2", "n3"])
        self.cluster.cut(node)
        try:
            self.wait_until_gone(job)
        finally:
            self.cluster.heal(node)

    def kill_slurmd(self):
        """Slurm gives the node up; the job's processes on it live on, and are killed only after the job was requeued."""
        before = self.records()
        script = f"exec mpirun --bind-to none {' '.join(self.command())}"
        job = int(self.cluster.slurm("sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", "--no-requeue",
                                     f"--output={self.cluster.folder}/slurm.log", f"--wrap={script}"))
        end = time.monotonic() + 60
        while self.records() <= before:
            if time.monotonic() > end:
                raise Failure("the job in Slurm makes no progress")
            time.sleep(0.05)
        node = self.random.choice(["n1", "n2"])
        self.cluster.kill_slurmd(node)
        self.cluster.wait_state(job, ["NODE_FAIL", "FAILED", "CANCELLED"], 90)
        self.kill(self.ranks())
        self.cluster.start_slurmd(node)
        self.cluster.wait_idle()

    def check(self):
        figures, self.content = check_run.check(self.out, self.content)
        return figures

    def round(self, event):
        getattr(self, event)()
        self.counts[event] += 1
        return self.check()


def plan_rounds(kills, chooser):
    scale = kills / sum(EVENTS.values())
    rounds = [event for event, count in EVENTS.items() for _ in range(max(1, round(count * scale)))]
    rounds += ["kill_a_rank"] * (kills - len(rounds))
    chooser.shuffle(rounds)
    return rounds[:kills]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60, metavar="N", help="rounds (60)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of what is done and when (0)")
    parser.add_argument("--only", choices=EVENTS, metavar="EVENT", help="one of: " + ", ".join(EVENTS))
    return parser.parse_args()


def run(arguments, disk):
    start, failures = time.monotonic(), 0
    with testcluster.Cluster.start(4) as cluster:
        chaos = Chaos(cluster, disk, arguments.seed)
        rounds = plan_rounds(arguments.kills, random.Random(arguments.seed))
        if arguments.only:
            rounds = [arguments.only] * arguments.kills
        for number, event in enumerate(rounds, 1):
            try:
                figures = chaos.round(event)
            except (Failure, check_run.Violation, hosts.HostsError) as error:
                failures += 1
                print(f"round {number}, {event}: FAILED: {error}", flush=True)
                chaos.kill(chaos.ranks())
            else:
                if number % 10 == 0:
                    print(f"round {number}, {event}: {figures}", flush=True)
        with contextlib.suppress(check_run.Violation):
            figures = chaos.check()
    seconds = time.monotonic() - start
    print(f"{arguments.kills} rounds in {seconds:.0f} s, {failures} failed; {dict(chaos.counts)}; {figures}")
    return 1 if failures else 0


def main():
    arguments = parse_arguments()
    if reason := testcluster.obstacle():
        print(f"skipped: {reason}")
        return SKIPPED
    if os.environ.get("CHAOS_HAS_ITS_MOUNTS") is None:
        # A disk of its own, to fill and write-protect, which goes with the process.
        environment = os.environ | {"CHAOS_HAS_ITS_MOUNTS": "yes"}
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv], environment)
    with tempfile.TemporaryDirectory(prefix="chaos.", dir="/var/tmp") as folder:
        disk = pathlib.Path(folder)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", disk], check=True)
        try:
            return run(arguments, disk)
        finally:
            subprocess.run(["umount", "--lazy", disk], check=True)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Training across four hosts when a cable is cut, a rank is stopped or killed, or the network is slow."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import hosts
import small_training

SKIPPED = 77
DEADLINE_S = 4
GRACE_S = 10
PROGRAM = "ripieno-train"


class FaultTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.data = small_training.make_dataset(self.folder / "data")
        self.network = self.enterContext(hosts.Hosts.start(4))

    def mpirun(self, name, **options):
        command = small_training.train_command(self.data, self.folder / name, **options)
        return ["mpirun", "--host", "n1,n2,n3,n4", *command]

    def ranks(self, host):
        return self.network.processes(host, "--out " + str(self.folder))

    def trains(self):
        log = self.folder / "a/operator.jsonl"
        return log.exists() and log.stat().st_size > 0

    def output_after(self, fault):
        """What a long run prints when `fault` strikes it. Every rank on every host ends in time."""
        log = self.folder / "log"
        with open(log, "w") as file:
            job = self.network.popen("head", self.mpirun("a", steps=1000000, collective_timeout=DEADLINE_S,
                                                         operator_log=None), stdout=file, stderr=file)
        hosts.wait_for(self.trains, 60, "training does not start")
        ranks = [pid for host in self.network.names for pid in self.ranks(host) if self.is_rank(pid)]
        self.assertEqual(len(ranks), 4)
        start = time.monotonic()
        fault()
        try:
            hosts.wait_for(lambda: not any(map(self.is_rank, ranks)), DEADLINE_S + GRACE_S,
                           "ranks live on; " + log.read_text())
            print(f"  ended after {time.monotonic() - start:.1f} s", file=sys.stderr)
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(timeout=10)  # for what mpirun has to say
        finally:
            job.kill()  # mpirun waits for the daemon of a host that is cut off
            job.wait()
        return log.read_text()

    @staticmethod
    def is_rank(pid):
        return hosts.command_line(pid).split(" ")[0].endswith(PROGRAM)

    def signal_rank(self, host, number):
        for pid in filter(self.is_rank, self.ranks(host)):
            os.kill(pid, number)

    def assert_named(self, output, pattern):
        self.assertRegex(output, pattern)
        self.assertEqual(len(re.findall("has not ended after", output)), 1, output)

    def test_a_cut_cable_ends_all_and_its_rank_is_named(self):
        output = self.output_after(lambda: self.network.cut("n3"))
        self.assert_named(output, r"has not ended after 4 s \(rank 2 on n3 does not answer: its host is cut off")

    def test_a_stopped_rank_ends_all_and_is_named(self):
        output = self.output_after(lambda: self.signal_rank("n2", signal.SIGSTOP))
        self.assert_named(output, r"has not ended after 4 s \(rank 1 on n2 ")

    def test_a_killed_rank_ends_all_and_is_named(self):
        output = self.output_after(lambda: self.signal_rank("n4", signal.SIGKILL))
        self.assertRegex(output, r"rank 3 (on n4 |with PID \d+ on node n4)")

    def test_delay_and_loss_only_slow_it_down(self):
        def train(name):
            start = time.monotonic()
            done = self.network.run("head", self.mpirun(name, steps=5, insecure_seed=3), timeout=240)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return time.monotonic() - start, (self.folder / name / "model.h5").read_bytes()

        quick_s, quick = train("quick")
        self.network.cable("*", delay_ms=20, loss=0.01)
        slow_s, slow = train("slow")
        print(f"  {quick_s:.1f} s, and {slow_s:.1f} s with 20 ms and 1 % loss", file=sys.stderr)
        self.assertEqual(slow, quick)
        self.assertGreater(slow_s, quick_s)


if __name__ == "__main__":
    if reason := hosts.obstacle():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main()

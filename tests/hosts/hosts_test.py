#!/usr/bin/env python3
"""Tests of hosts.py, and of training across hosts."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import hosts
import small_training

SKIPPED = 77

# Prints how long it takes to be refused at a port where nobody listens, or "silence".
PROBE = textwrap.dedent("""
    import socket, sys, time
    start = time.monotonic()
    try:
        socket.create_connection((sys.argv[1], 9), timeout=float(sys.argv[2]))
    except ConnectionRefusedError:
        print(time.monotonic() - start)
    except OSError:
        print("silence")
""")


def probe(network, host, target, timeout_s=5):
    return network.run(host, [sys.executable, "-c", PROBE, target, timeout_s], check=True).stdout.strip()


class CableTest(unittest.TestCase):
    def setUp(self):
        self.network = self.enterContext(hosts.Hosts.start(2))

    def test_hosts_have_names_and_reach_each_other(self):
        self.assertEqual(self.network.names, ["n1", "n2"])
        self.assertEqual(self.network.run("n2", ["hostname"]).stdout, "n2\n")
        self.assertLess(float(probe(self.network, "n1", "n2")), 1)
        self.assertLess(float(probe(self.network, "n1", "head")), 1)

    def test_a_delay_is_paid_in_both_directions(self):
        self.network.cable("n1", delay_ms=50)
        self.network.cable("n2", delay_ms=25)
        elapsed = float(probe(self.network, "n1", "n2"))
        self.assertGreater(elapsed, 0.150)
        self.assertLess(elapsed, 1.5)

    def test_a_cut_cable_is_silent_until_it_heals(self):
        self.network.cut("n2")
        self.assertEqual(probe(self.network, "n1", "n2", 1), "silence")
        self.assertNotEqual(probe(self.network, "n1", "head"), "silence")
        self.network.heal("n2")
        self.assertNotEqual(probe(self.network, "n1", "n2"), "silence")

    def test_lost_frames_are_sent_again(self):
        self.network.cable("*", loss=0.05)
        data = 200_000
        server = self.network.popen("n2", [sys.executable, "-c", textwrap.dedent("""
            import socket
            with socket.create_server(("", 5000)) as server:
                print("listening", flush=True)
                connection, _ = server.accept()
                print(sum(len(part) for part in iter(lambda: connection.recv(65536), b"")))
        """)], stdout=subprocess.PIPE, text=True)
        server.stdout.readline()
        self.network.run("n1", [sys.executable, "-c",
                                f"import socket; socket.create_connection(('n2', 5000)).sendall(bytes({data}))"], timeout=60)
        self.assertEqual(server.communicate(timeout=60)[0], f"{data}\n")

    def test_power_off_ends_every_process_of_a_host(self):
        sleeper = self.network.popen("n1", ["sleep", "1000"])
        hosts.wait_for(lambda: self.network.processes("n1", "sleep 1000"), 10, "sleep does not start")
        self.network.power_off("n1")
        self.assertNotEqual(sleeper.wait(timeout=10), 0)
        self.assertEqual(probe(self.network, "n2", "n1", 1), "silence")

    def test_what_is_wrong_with_a_command_is_told(self):
        for host, properties, message in [("n9", {"cut": 1}, "no host n9"), ("n1", {"lose": 1}, "unknown property lose"),
                                          ("n1", {"loss": 2}, "2 is not a number from 0 to 1")]:
            with self.assertRaisesRegex(hosts.HostsError, message):
                self.network.cable(host, **properties)


class LifeTest(unittest.TestCase):
    def test_two_networks_do_not_meet(self):
        with hosts.Hosts.start(1) as one, hosts.Hosts.start(1) as other:
            one.cut("n1")
            self.assertEqual(probe(one, "head", "n1", 1), "silence")
            self.assertNotEqual(probe(other, "head", "n1"), "silence")

    def test_nothing_is_left_after_a_stop(self):
        network = hosts.Hosts.start(2)
        folder = network.folder
        left_alone = network.popen("n1", ["setsid", "sleep", "1000"])
        pids = [network.pid(host) for host in ["head", "n1", "n2"]]
        network.stop()
        left_alone.wait(timeout=10)
        self.assertFalse(folder.exists())
        self.assertFalse(any(map(hosts.command_line, pids)))

    def test_hosts_end_with_the_process_that_started_them(self):
        starter = subprocess.Popen(
            [sys.executable, "-c", "import hosts, time; n = hosts.Hosts.start(1); print(n.folder, flush=True); time.sleep(99)"],
            stdout=subprocess.PIPE, text=True, cwd=pathlib.Path(__file__).parent)
        network = hosts.Hosts(starter.stdout.readline().strip())
        pids = [network.pid(host) for host in ["head", "n1"]]
        starter.send_signal(signal.SIGKILL)
        starter.communicate()
        hosts.wait_for(lambda: not any(map(hosts.command_line, pids)), 10, "hosts outlive their starter")
        network.stop()


class TrainingTest(unittest.TestCase):
    def test_four_hosts_train_what_one_host_trains(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        data = small_training.make_dataset(folder / "data")
        with hosts.Hosts.start(4) as network:
            def train(name, *mpirun):
                command = small_training.train_command(data, folder / name, insecure_seed=3)
                done = network.run("head", ["mpirun", *mpirun, *command], timeout=120)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                return done.stdout + done.stderr

            apart = train("apart", "--host", "n1,n2,n3,n4")
            self.assertIn("4 ranks on 4 hosts: n1 (0), n2 (1), n3 (2), n4 (3)", apart)
            together = train("together", "--host", "n1:4", "--bind-to", "none")
            self.assertIn("4 ranks on 1 host: n1 (0, 1, 2, 3)", together)
        for file in ["model.h5", "ledger.jsonl"]:
            self.assertEqual((folder / "apart" / file).read_bytes(), (folder / "together" / file).read_bytes(), file)


if __name__ == "__main__":
    if reason := hosts.obstacle():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main()

#!/usr/bin/env python3
"""Ripieno's batch scripts in a real Slurm cluster on this machine: launch, preemption, failures, resume.

Correctness goes through sbatch and mpirun. Slurm's own launch through PMIx now and then loses a rank while MPI starts;
tests of srun may try again on that signature only, twice at most, and say so. RIPIENO_FULL=1 adds what takes minutes.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/hosts"))
import hosts  # noqa: E402
import small_training  # noqa: E402


testcluster = hosts.load_script(ROOT / "slurm/testcluster")

SKIPPED = 77
STEPS = 150
ENDED = ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"]
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
full = unittest.skipUnless(os.environ.get("RIPIENO_FULL"), "takes minutes: RIPIENO_FULL=1")


class Run:
    """A training run: its folder, log and options."""

    def __init__(self, test, name, launcher="mpirun", **changes):
        self.test, self.cluster, self.launcher = test, test.cluster, launcher
        self.out = self.cluster.folder / name
        self.log = self.cluster.folder / f"{name}.log"
        changes = {"steps": STEPS, "reserve_steps": 2 * STEPS, "checkpoint_every": 10, **changes}
        self.steps = changes["steps"]
        self.options = small_training.train_command(test.data, self.out, **changes)[1:]

    def submit(self, *sbatch_options, script="train.sbatch"):
        environment = [f"RIPIENO_HOME={ROOT}", f"RIPIENO_BIN={small_training.BIN}", f"RIPIENO_LAUNCHER={self.launcher}"]
        return int(self.cluster.slurm("env", *environment, "sbatch", "--parsable", "--cpus-per-task=1", "--time=10",
                                      f"--output={self.log}", *sbatch_options, ROOT / "slurm" / script, *self.options))

    def run_from_the_head_node(self):
        """`srun -N4 -n8`, as a user types it: four nodes, eight ranks, no batch script."""
        with open(self.log, "w") as log:
            return self.cluster.popen("head", ["srun", "--mpi=pmix", "-N4", "-n8", "--cpus-per-task=1", "--kill-on-bad-exit=1",
                                               ROOT / "slurm/bind", small_training.TRAIN, *self.options],
                                      stdout=log, stderr=log).wait(timeout=1800)

    def segments(self):
        """(first step, number of records) of each segment of the ledger."""
        found = []
        for line in (self.out / "ledger.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if "segment" in entry:
                found.append([entry["first_step"], 0])
            elif "step" in entry:
                found[-1][1] += 1
        return found

    def wait_steps(self, count, timeout_s=90):
        ledger = self.out / "ledger.jsonl"
        hosts.wait_for(lambda: ledger.exists() and ledger.read_bytes().count(b'{"seg":') >= count, timeout_s,
                       f"no {count} steps; log: {self.log_text()}")

    def lost_steps(self):
        """Recorded in the ledger, but not in the newest checkpoint: none, where a crash came just behind one."""
        newest = max((self.out / "checkpoints").glob("step-*.h5"), default=None)
        saved = int(newest.stem.removeprefix("step-")) if newest else 0
        return sum(count for _, count in self.segments()) - saved

    def log_text(self):
        return self.log.read_text() if self.log.exists() else "(none)"

    def lost_at_start(self):
        """A rank was lost while MPI started: since the job was begun, or begun again, it has said nothing."""
        since_start = self.log_text().rpartition("DUE TO JOB REQUEUE")[2]
        return "Segmentation fault" in since_start and "ranks on" not in since_start

    def check_finished(self, job, lost=None):
        """The job completed, and epsilon is that of an unbroken run with the lost steps added."""
        state = self.cluster.wait_state(job, ENDED)["JobState"]
        self.test.assertEqual(state, "COMPLETED", self.log_text())
        self.check_result(lost)

    def check_result(self, lost=None):
        result = small_training.result(self.out)
        segments = self.segments()
        records = sum(count for _, count in segments)
        redone = sum(first + count - following for (first, count), (following, _) in zip(segments, segments[1:]))
        self.test.assertEqual(result["steps"], self.steps)
        self.test.assertEqual(records, self.steps + redone)
        self.test.assertEqual(result["ledger_records"], records)
        if lost is not None:
            self.test.assertEqual(redone, lost)
        expected = json.loads(subprocess.run(
            [small_training.BIN / "ripieno-privacy", "epsilon", "--noise-multiplier", "1.5", "--sample-rate",
             str(32 / small_training.EXAMPLES), "--steps", str(records), "--delta", "1e-5", "--json"],
            check=True, capture_output=True, text=True).stdout)
        self.test.assertAlmostEqual(result["epsilon"], expected["epsilon"], delta=1e-6)


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(testcluster.Cluster.start(4))
        cls.data = small_training.make_dataset(cls.cluster.folder / "data")

    def setUp(self):
        self.addCleanup(self.cancel_all)

    def cancel_all(self):
        self.cluster.slurm("scancel", "--user=root")
        hosts.wait_for(lambda: not self.cluster.slurm("squeue", "--noheader"), 60, "jobs do not end")

    def start_again(self, job):
        """Slurm holds a requeued job back for two minutes; this only until the credential of its old start, which counts
        in seconds, cannot be taken for that of the new one."""
        self.cluster.wait_state(job, ["PENDING"])
        time.sleep(3)
        hosts.wait_for(lambda: self.cluster.run("head", ["scontrol", "update", f"jobid={job}", "StartTime=now"]).returncode
                       == 0, 30, "the job does not start again")

    def with_srun(self, name, body):
        """Calls body(run), a second and third time where a rank was lost while MPI started."""
        for attempt in range(3):
            run = Run(self, f"{name}{attempt}", launcher="srun")
            try:
                return body(run)
            except (AssertionError, hosts.HostsError):
                if not run.lost_at_start() or attempt == 2:
                    raise
                print(f"{self.id()}: srun lost a rank at the start, try {attempt + 2} of 3")
                self.cancel_all()

    def test_sbatch_with_mpirun_trains_on_all_nodes(self):
        run = Run(self, "mpirun")
        job = run.submit("--nodes=4", "--ntasks-per-node=2")
        run.check_finished(job, lost=0)
        self.assertIn("8 ranks on 4 hosts: n1 (0, 1), n2 (2, 3), n3 (4, 5), n4 (6, 7)", run.log_text())
        self.assertIn(f"SLURM_JOB_ID={job}", run.log_text())

    def test_sbatch_with_srun_trains_on_all_nodes(self):
        def body(run):
            run.check_finished(run.submit("--nodes=4", "--ntasks-per-node=2"), lost=0)
            self.assertIn("8 ranks on 4 hosts", run.log_text())

        self.with_srun("srun", body)

    def test_srun_from_the_head_node_trains_on_all_nodes(self):
        def body(run):
            self.assertEqual(run.run_from_the_head_node(), 0, run.log_text())
            run.check_result(lost=0)
            self.assertIn("8 ranks on 4 hosts", run.log_text())

        self.with_srun("head", body)

    def test_tasks_that_mpi_does_not_connect_are_refused(self):
        run = Run(self, "singletons")
        done = self.cluster.run("head", ["srun", "--mpi=none", "-N2", "-n2", small_training.TRAIN, *run.options], timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("srun --mpi=pmix", done.stderr)
        self.assertFalse(run.out.exists())

    def test_a_warned_job_checkpoints_and_requeues_itself(self):
        run = Run(self, "warned")
        job = run.submit("--nodes=2", "--ntasks-per-node=2")
        run.wait_steps(30)
        # What `#SBATCH --signal=B:USR1@120` does two minutes before the end.
        self.cluster.slurm("scancel", "--batch", "--signal=USR1", str(job))
        self.start_again(job)
        run.check_finished(job, lost=0)
        self.assertIn("goes back into the queue", run.log_text())
        self.assertIn("after a clean stop", run.log_text())
        self.assertEqual(len(run.segments()), 1)
        self.assertEqual(self.cluster.job(job)["Restarts"], "1")

    def test_a_preempted_job_goes_on(self):
        for launcher in ["mpirun", "srun"]:
            with self.subTest(launcher=launcher):
                def body(run):
                    job = run.submit("--nodes=2", "--ntasks-per-node=2")
                    run.wait_steps(30)
                    self.cluster.slurm("scontrol", "requeue", str(job))
                    self.start_again(job)
                    run.check_finished(job)

                if launcher == "mpirun":
                    body(Run(self, "preempted"))
                else:
                    self.with_srun("preempted-srun", body)

    def test_a_cancelled_job_does_not_come_back(self):
        run = Run(self, "cancelled")
        job = run.submit("--nodes=1", "--ntasks-per-node=2")
        run.wait_steps(10)
        self.cluster.slurm("scancel", str(job))
        hosts.wait_for(lambda: not self.cluster.slurm("squeue", "--noheader"), 60, "the job does not end")
        self.assertEqual(self.cluster.job(job)["JobState"], "CANCELLED")
        self.assertEqual(self.cluster.job(job)["Restarts"], "0")

    def test_a_job_goes_on_without_a_node_that_is_down(self):
        run = Run(self, "down")
        job = run.submit("--nodes=3", "--ntasks-per-node=1")
        run.wait_steps(30)
        lost = "n2"
        self.cluster.slurm("scontrol", "update", f"nodename={lost}", "state=down", "reason=test")
        self.addCleanup(self.cluster.slurm, "scontrol", "update", f"nodename={lost}", "state=resume")
        self.start_again(job)
        run.check_finished(job)
        self.assertIn("3 ranks on 3 hosts: n1 (0), n3 (1), n4 (2)", run.log_text())

    def test_a_run_moves_to_fewer_ranks(self):
        run = Run(self, "fewer")
        job = run.submit("--nodes=4", "--ntasks-per-node=2")
        run.wait_steps(30)
        self.cluster.slurm("scancel", "--batch", "--signal=USR1", str(job))
        self.cluster.wait_state(job, ["PENDING"])
        self.cluster.slurm("scancel", str(job))
        run.check_finished(run.submit("--nodes=3", "--ntasks=3", "--ntasks-per-node=1"), lost=0)
        self.assertEqual(len(run.segments()), 2)

    def test_a_dead_rank_ends_the_job_and_a_new_one_goes_on(self):
        def body(run):
            job = run.submit("--nodes=2", "--ntasks-per-node=2")
            run.wait_steps(30)
            os.kill(small_training.ranks_on(self.cluster, "n2")[-1], signal.SIGKILL)
            self.assertEqual(self.cluster.wait_state(job, ENDED, 60)["JobState"], "FAILED", run.log_text())
            self.assertEqual(small_training.ranks_on(self.cluster, "n1"), [])
            lost = run.lost_steps()
            run.check_finished(run.submit("--nodes=2", "--ntasks-per-node=2"), lost)
            self.assertEqual(len(run.segments()), 2 if lost else 1)

        self.with_srun("dead", body)

    def test_orphans_on_a_lost_node_cannot_spend(self):
        run = Run(self, "orphans", steps=4 * STEPS)  # so that the cable is cut before the last of them
        job = run.submit("--nodes=2", "--ntasks-per-node=1", "--nodelist=n1,n2")
        run.wait_steps(30)
        (orphan,) = small_training.ranks_on(self.cluster, "n1")  # rank 0, which holds the ledger
        self.cluster.cut("n1")
        self.addCleanup(self.cluster.wait_idle)
        self.addCleanup(self.cluster.heal, "n1")
        self.cluster.wait_state(job, ["PENDING"])
        self.cluster.slurm("scontrol", "update", f"jobid={job}", "ReqNodeList=n2,n3")
        self.assertTrue(hosts.command_line(orphan), f"it should live on, with the ledger open; log: {run.log_text()}")
        self.start_again(job)
        run.check_finished(job)
        self.assertIn("taking", run.log_text())
        os.kill(orphan, signal.SIGKILL)

    def test_a_sweep_is_analysed_together(self):
        sweep = self.cluster.folder / "sweep.txt"
        sweep.write_text("--lr 0.1 --steps 5\n--lr 0.5 --steps 8\n")
        run = Run(self, "sweep", steps=5)
        out = run.options.index("--out")
        del run.options[out:out + 2]
        for name in ["--lr", "--steps"]:
            at = run.options.index(name)
            del run.options[at:at + 2]
        run.options = [str(sweep), str(run.out), *run.options]
        run.log = self.cluster.folder / "sweep-%a.log"
        job = run.submit("--nodes=1", "--ntasks-per-node=2", "--array=1-2", script="sweep.sbatch")
        report = self.cluster.folder / "sweep-report.log"
        analysis = int(self.cluster.slurm("sbatch", "--parsable", f"--dependency=afterok:{job}", f"--output={report}",
                                          f"--export=ALL,RIPIENO_BIN={small_training.BIN}",
                                          ROOT / "slurm/analyze.sbatch", run.out))
        self.assertEqual(self.cluster.wait_state(analysis, ENDED)["JobState"], "COMPLETED")
        self.assertEqual([small_training.result(run.out / task)["steps"] for task in "12"], [5, 8])
        text = report.read_text()
        self.assertIn("== all 2 runs together", text)
        self.assertIn("all of them together, 13 steps", text)

    def test_a_chain_trains_and_then_analyses(self):
        run = Run(self, "chain", steps=5)
        out = run.options.index("--out")
        del run.options[out:out + 2]
        output = self.cluster.slurm("env", f"--chdir={self.cluster.folder}", f"RIPIENO_HOME={ROOT}",
                                    f"RIPIENO_BIN={small_training.BIN}", ROOT / "slurm/submit_chain",
                                    ROOT / "slurm/train.sbatch", run.out, *run.options)
        training, analysis = map(int, output.split())
        self.assertEqual(self.cluster.wait_state(analysis, ENDED)["JobState"], "COMPLETED")
        self.assertEqual(self.cluster.job(training)["JobState"], "COMPLETED")

    @full
    def test_the_time_limit_is_no_crash(self):
        run = Run(self, "limit", steps=4000, reserve_steps=0, checkpoint_every=0)
        job = run.submit("--nodes=2", "--ntasks-per-node=1", "--time=1", "--signal=B:USR1@10")
        run.wait_steps(5)
        self.cluster.wait_state(job, ["PENDING"], 150)
        self.assertEqual(len(run.segments()), 1)
        self.assertTrue(list((run.out / "checkpoints").iterdir()), "checkpointed while there was time")

    @full
    def test_fashion_mnist_reaches_the_accuracy_of_the_demo(self):
        data = self.cluster.folder / "fashion-mnist"
        subprocess.run([small_training.BIN / "ripieno-dataset", "import", "fashion-mnist", "--from", FASHION_MNIST, "--out",
                        data], check=True)

        def trained(run, start):
            run.options = ["--config", str(ROOT / "drivers/recipes/fashion-mnist-linear.ini"), "--data",
                           str(data / "train.json"), "--eval-data", str(data / "test.json"), "--out", str(run.out)]
            start(run)
            result = small_training.result(run.out)
            print(f"{run.out.name}: accuracy {result['test_accuracy']}, epsilon {result['epsilon']}")
            self.assertGreaterEqual(result["test_accuracy"], 0.875)
            self.assertLessEqual(result["epsilon"], 2.7)

        def by_sbatch(run):
            job = run.submit("--nodes=4", "--ntasks-per-node=2", "--time=60")
            self.assertEqual(self.cluster.wait_state(job, ENDED, 1800)["JobState"], "COMPLETED", run.log_text())

        trained(Run(self, "fashion-mpirun"), by_sbatch)
        self.with_srun("fashion-srun", lambda run: trained(run, by_sbatch))
        self.with_srun("fashion-head", lambda run: trained(
            run, lambda run: self.assertEqual(run.run_from_the_head_node(), 0, run.log_text())))


if __name__ == "__main__":
    if reason := testcluster.obstacle():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Tests of slurm/bind: which cores and which GPU a task gets."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

BIND = pathlib.Path(__file__).resolve().parents[2] / "slurm/bind"
PROGRAM = ("import json, os; print(json.dumps([sorted(os.sched_getaffinity(0)), os.environ.get('CUDA_VISIBLE_DEVICES')]))")
LAUNCHER = ("OMPI_", "SLURM_", "CUDA_", "RIPIENO_BIND")


def bound(cores=None, **variables):
    """[cores, CUDA_VISIBLE_DEVICES] of a program under bind, started with these cores and launcher variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER)}
    limit = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    done = subprocess.run([*limit, BIND, sys.executable, "-c", PROGRAM], env=environment | variables, check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout)


class BindTest(unittest.TestCase):
    def setUp(self):
        self.cores = sorted(os.sched_getaffinity(0))
        if len(self.cores) < 2:
            self.skipTest("one core")

    def under_mpirun(self, task, tasks, **variables):
        return bound(OMPI_COMM_WORLD_LOCAL_RANK=str(task), OMPI_COMM_WORLD_LOCAL_SIZE=str(tasks), SLURM_LOCALID="0",
                     OMPI_MCA_hwloc_base_binding_policy="none", **variables)

    def test_tasks_share_the_cores_of_a_node(self):
        shares = [self.under_mpirun(task, 2)[0] for task in range(2)]
        self.assertEqual(sorted(shares[0] + shares[1]), self.cores)
        self.assertTrue(all(shares))

    def test_more_tasks_than_cores_are_left_alone(self):
        self.assertEqual(self.under_mpirun(0, len(self.cores) + 1)[0], self.cores)

    def test_a_launcher_that_binds_has_its_way(self):
        variables = {"SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_CPU_BIND_TYPE": "mask_cpu:"}
        self.assertEqual(bound(self.cores[:1], **variables)[0], self.cores[:1])
        self.assertEqual(bound(OMPI_COMM_WORLD_LOCAL_RANK="1", OMPI_COMM_WORLD_LOCAL_SIZE="2",
                               OMPI_MCA_hwloc_base_binding_policy="core")[0], self.cores)

    def test_nothing_is_done_when_asked_for_nothing(self):
        self.assertEqual(self.under_mpirun(1, 2, RIPIENO_BIND="none", CUDA_VISIBLE_DEVICES="0,1"), [self.cores, "0,1"])

    def test_slurm_tells_how_many_tasks_a_node_has(self):
        for counts, node, tasks in [("2(x4)", 3, 2), ("1,2", 1, 2), ("1(x2),2", 2, 2), ("2,1", 1, 1)]:
            shares = [bound(SLURM_LOCALID=str(task), SLURM_NODEID=str(node), SLURM_STEP_TASKS_PER_NODE=counts)[0]
                      for task in range(tasks)]
            self.assertEqual(sorted(sum(shares, [])), self.cores, counts)

    def test_each_task_gets_one_gpu_and_a_single_visible_one_stands(self):
        for task, visible, expected in [(0, "0,1", "0"), (1, "0,1", "1"), (3, "4,6", "6"), (1, "5", "5")]:
            self.assertEqual(self.under_mpirun(task, 4, CUDA_VISIBLE_DEVICES=visible)[1], expected)
        self.assertIsNone(self.under_mpirun(1, 4)[1])


if __name__ == "__main__":
    unittest.main()

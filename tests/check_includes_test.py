"""Tests of check_includes.py on small source trees."""

import pathlib
import tempfile
import unittest

import check_includes


def faults(files):
    """Faults of a tree given as {path: text}; headers get their #pragma once here."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(("#pragma once\n" if path.endswith(".hpp") else "\n") + text, encoding="utf-8")
        return check_includes.check(root)[0]


class CheckIncludes(unittest.TestCase):
    def test_dependencies_downwards_are_fine(self):
        self.assertEqual(
            faults({
                "drivers/train.cpp": "#include <ripieno/ripieno.hpp>\n#include <ripieno/framework/comm/runtime.hpp>\n",
                "framework/comm/runtime.hpp": "#include <ripieno/io/shards.hpp>\n#include <vector>\n",
                "io/shards.hpp": "#include <ripieno/accounting/ledger/plan.hpp>\n",
                "accounting/ledger/plan.hpp": "#include <ripieno/accounting/base/error.hpp>\n",
                "accounting/base/error.hpp": "#include <ripieno/version.hpp>\n",
            }), [])

    def test_each_step_upwards_is_a_fault(self):
        for path, target in [("accounting/base/a.cpp", "accounting/ledger/plan.hpp"), ("accounting/a.cpp", "io/s.hpp"),
                             ("io/a.cpp", "framework/core/pytree.hpp"), ("io/a.cpp", "ripieno.hpp"),
                             ("framework/comm/a.cpp", "drivers/cli.hpp")]:
            with self.subTest(path=path):
                found = faults({path: f"#include <ripieno/{target}>\n"})
                self.assertEqual(len(found), 1)
                self.assertTrue(found[0].startswith(f"{path}:2: "), found)

    def test_heavy_headers_are_for_sources_and_internal_headers(self):
        for header in ["mpi.h", "hdf5.h", "nccl.h", "torch/torch.h"]:
            with self.subTest(header=header):
                text = f"  #  include <{header}>\n"
                self.assertEqual(len(faults({"framework/comm/a.hpp": text})), 1)
                self.assertEqual(faults({"framework/comm/a.cpp": text, "framework/comm/a_internal.hpp": text}), [])

    def test_internal_headers_do_not_leak_through_public_ones(self):
        text = "#include <ripieno/framework/comm/mpi_internal.hpp>\n"
        self.assertEqual(len(faults({"framework/comm/a.hpp": text})), 1)
        self.assertEqual(faults({"framework/comm/a.cpp": text, "framework/comm/b_internal.hpp": text}), [])

    def test_lower_layers_know_no_torch_and_no_mpi(self):
        for path, header in [("accounting/a.cpp", "ATen/ATen.h"), ("accounting/a.cpp", "hdf5.h"), ("io/a.cpp", "mpi.h"),
                             ("io/a.cpp", "c10/util/Half.h"), ("accounting/base/a.cpp", "mpi.h")]:
            with self.subTest(path=path, header=header):
                self.assertEqual(len(faults({path: f"#include <{header}>\n"})), 1)
        self.assertEqual(faults({"io/a.cpp": "#include <hdf5.h>\n"}), [])

    def test_own_headers_are_written_with_their_path(self):
        self.assertEqual(len(faults({"io/a.cpp": '#include "shards.hpp"\n'})), 1)
        self.assertEqual(faults({"drivers/a.cpp": '#include <ripieno/accounting/cli/options.hpp>\n'}), [])

    def test_a_header_guards_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "io").mkdir()
            (root / "io/a.hpp").write_text("int a;\n", encoding="utf-8")
            self.assertEqual(check_includes.check(root)[0], ["io/a.hpp:1: no #pragma once"])

    def test_an_empty_tree_is_not_a_success(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check_includes.main([folder]), 1)


if __name__ == "__main__":
    unittest.main()

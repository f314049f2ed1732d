# Copy this folder into a repository of your own: spack repo create my-repo; cp -r ripieno my-repo/packages/
# A checkout is built in place: spack dev-build ripieno@main

from spack.package import *


class Ripieno(CMakePackage):
    """Trains models under differential privacy on clusters: DP-SGD over MPI, with a ledger that anyone can check."""

    license("Apache-2.0")

    version("main", branch="main")

    variant("training", default=True, description="build the training framework, not just the accountant")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("boost+program_options")
    depends_on("nlohmann-json@3.11:")
    with when("+training"):
        depends_on("mpi")
        depends_on("hdf5~mpi@1.10:")
        depends_on("zlib-api")
        depends_on("xxhash")
        depends_on("py-torch@2.11:2.15~cuda")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("RIPIENO_BUILD_TESTS", False),
            self.define("RIPIENO_BUILD_BENCHMARKS", False),
            self.define("RIPIENO_ACCOUNTING_ONLY", "~training" in self.spec),
        ]
        if "+training" in self.spec:
            torch = join_path(self.spec["py-torch"].package.get_python_lib(), "torch")
            args.append(self.define("TORCH_DIR", torch))
        return args

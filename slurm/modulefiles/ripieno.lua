-- Lmod module file. Install with `cmake --install build/cpu --prefix PREFIX`, put this file into a folder on MODULEPATH as
-- ripieno/VERSION.lua, and set the two lines below to your site's.
local prefix = "/opt/ripieno"
local requirements = { "openmpi", "hdf5" }

help([[Trains models under differential privacy on clusters. Start with ripieno-train --help.]])
whatis("Name: Ripieno")
whatis("Description: differentially private training over MPI, with a ledger that anyone can check")

for _, name in ipairs(requirements) do
  depends_on(name)
end
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
prepend_path("MANPATH", pathJoin(prefix, "share/man"))

# Rank 0's ledger file. A target of its own: it needs neither HDF5 nor MPI.
ripieno_add_library(ledger_writer SOURCES ledger_writer.cpp run_owner.cpp staging_folder.cpp LINK ripieno_ledger ripieno_io_files Threads::Threads)

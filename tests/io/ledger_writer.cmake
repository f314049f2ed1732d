ripieno_add_test(ledger_writer_test
  SOURCES ledger_writer_test.cpp run_owner_test.cpp
  LINK ripieno_ledger_writer)

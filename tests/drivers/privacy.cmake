ripieno_add_test(cli_test
  SOURCES privacy_cli_test.cpp
  LINK ripieno_cli)
ripieno_add_test(privacy_test
  SOURCES privacy_test.cpp
  LINK ripieno_ledger)
add_dependencies(privacy_test ripieno-privacy)
target_include_directories(privacy_test PRIVATE ${PROJECT_SOURCE_DIR}/tests/accounting/ledger)

ripieno_add_test(dataset_driver_test
  SOURCES dataset_test.cpp
  LINK ripieno_io)
add_dependencies(dataset_driver_test ripieno-dataset)

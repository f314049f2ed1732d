ripieno_add_test(dataset_driver_test
  SOURCES dataset_test.cpp
  LINK ripieno_io ripieno_feature_kernels)
add_dependencies(dataset_driver_test ripieno-dataset)

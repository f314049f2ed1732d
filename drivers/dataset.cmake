add_executable(ripieno-dataset dataset.cpp)
target_link_libraries(ripieno-dataset PRIVATE ripieno_settings ripieno_cli ripieno_io)

# Needs neither Torch, MPI nor HDF5: a privacy officer builds it alone with -DRIPIENO_ACCOUNTING_ONLY=ON.
add_executable(ripieno-privacy privacy.cpp privacy_analyze.cpp privacy_audit.cpp privacy_mechanism.cpp)
target_link_libraries(ripieno-privacy PRIVATE ripieno_settings ripieno_cli ripieno_plot ripieno_mechanisms)
ripieno_compile_quickly(ripieno-privacy)

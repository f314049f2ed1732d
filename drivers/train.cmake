add_executable(ripieno-train train.cpp)
target_link_libraries(ripieno-train PRIVATE ripieno_framework)
ripieno_use_torch(ripieno-train)

foreach(example minimal_example planned_example)
  add_executable(${example} ${example}.cpp)
  target_link_libraries(${example} PRIVATE ripieno_framework)
  ripieno_use_torch(${example})
endforeach()

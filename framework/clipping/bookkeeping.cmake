target_sources(ripieno_clipping PRIVATE
  bookkeeping_batched.cpp
  bookkeeping_broadcast.cpp
  bookkeeping_convolution.cpp
  bookkeeping_embedding.cpp
  bookkeeping_embedding_bag.cpp
  bookkeeping_engine.cpp
  bookkeeping_handlers.cpp
  bookkeeping_linear.cpp
  bookkeeping_normalisation.cpp
  bookkeeping_step.cpp
  graph_check.cpp
  graph_layout.cpp
  graph_plan.cpp
  graph_pullback.cpp
  graph_synthetic.cpp
  graph_trace.cpp
  per_example_conv.cpp per_example_device.cpp
  per_example_gradient.cpp
  per_example_gram.cpp
  per_example_layout.cpp
  per_example_normalisation.cpp
  per_example_outer.cpp
  per_example_products.cpp
  per_example_rows.cpp
  per_example_table.cpp)

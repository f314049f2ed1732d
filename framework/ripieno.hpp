#pragma once

// Everything that a training program of one's own needs.

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/clipping/adaptive_clipped_grad.hpp>
#include <ripieno/framework/clipping/clipped_fun.hpp>
#include <ripieno/framework/clipping/clipped_grad.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/distributed/equality.hpp>
#include <ripieno/framework/distributed/gather.hpp>
#include <ripieno/framework/distributed/reduce.hpp>
#include <ripieno/framework/distributed/reduce_pytree.hpp>
#include <ripieno/framework/distributed/scalars.hpp>
#include <ripieno/framework/distributed/sync.hpp>
#include <ripieno/framework/distributed/sync_states.hpp>
#include <ripieno/framework/distributed/tensors.hpp>
#include <ripieno/framework/distributed/world.hpp>
#include <ripieno/framework/functional/make_functional.hpp>
#include <ripieno/framework/functional/script_function.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/noise/mf_second_moment_noise.hpp>
#include <ripieno/framework/optim/optimizers.hpp>
#include <ripieno/framework/optim/schedules.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>
#include <ripieno/framework/sampling/data_loader.hpp>
#include <ripieno/framework/sampling/dataset.hpp>
#include <ripieno/framework/sampling/poisson.hpp>
#include <ripieno/framework/sampling/samplers.hpp>
#include <ripieno/framework/sampling/shard.hpp>
#include <ripieno/framework/sampling/shard_dataset.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/ledger.hpp>
#include <ripieno/framework/training/train_main.hpp>

// Steps whose parameters and state are on a device, with a device that is none (pretend_device.hpp) and kernels that
// run on the host (stand_in_kernels.cpp). No operation may mix its tensors with the processor's.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/device_stream.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/core/tree_device.hpp>
#include <ripieno/framework/training/device_hash.hpp>
#include <ripieno/framework/training/device_state.hpp>

#include "pretend_device.hpp"
#include "regression_run.hpp"
#include "varied_optimizers.hpp"

namespace ripieno {

// In place of the library's, which knows CUDA's streams or none.
cuda::Stream* current_stream(c10::Device device) {
  EXPECT_EQ(device, testing::pretend_device());
  return nullptr;
}

namespace {

using ripieno::testing::pretend_device;
using ripieno::testing::RegressionRun;
using ripieno::testing::varied_optimizers;

PyTree on(at::Device device, const PyTree& tree) {
  return tree.map([device](const at::Tensor& leaf) { return leaf.to(leaf.options().device(device), false, true); });
}

void expect_same_bits(const PyTree& made, const PyTree& expected, const std::string& where) {
  EXPECT_EQ(device_of(made), pretend_device()) << where;
  const at::Tensor a = flatten(on(at::kCPU, made)), b = flatten(expected);
  ASSERT_EQ(a.nbytes(), b.nbytes()) << where;
  EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()), 0) << where;
}

/// State and parameters of a few steps, in place and as functions, with the same gradients on both sides.
void expect_same_trajectory(const optim::FunctionalOptimizer& optimizer, at::ScalarType dtype) {
  at::manual_seed(4);
  const PyTree params{{"b", at::randn({700}, dtype)}, {"w", at::randn({40, 70}, dtype)}};
  const DeviceRun device(pretend_device());
  TrainingState here{on(at::kCPU, params), optimizer.init(params), {}}, there = host_copy(here);
  settle_on_device(device, optimizer, there);
  for (int step = 0; step < 4; ++step) {
    const PyTree gradient = params.map([](const at::Tensor& leaf) { return at::randn_like(leaf); });
    const PyTree moved = on(pretend_device(), gradient);
    const auto [updates, state] = optimizer.update(gradient, here.optimizer, here.params);
    expect_same_bits(optimizer.update(moved, there.optimizer, there.params).updates, updates, optimizer.name());
    optimizer.step_(here.params, gradient, here.optimizer, 3.7);
    optimizer.step_(there.params, moved, there.optimizer, 3.7);
    expect_same_bits(there.params, here.params, optimizer.name());
    for (const auto& [name, tree] : here.optimizer.slots) {
      expect_same_bits(there.optimizer.slots.at(name), tree, optimizer.name() + " " + name);
    }
  }
  expect_same_bits(optimizer.published(there.params, there.optimizer), optimizer.published(here.params, here.optimizer),
                   optimizer.name());
  EXPECT_EQ(host_copy(there).optimizer, here.optimizer) << optimizer.name();
}

TEST(OptimizersOnADevice, HaveTheProcessorsBitsInUpdatesParametersAndState) {
  for (const optim::FunctionalOptimizer& optimizer : varied_optimizers()) {
    if (!optimizer.coupling().empty()) continue;
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) expect_same_trajectory(optimizer, dtype);
  }
}

TEST(OptimizersOnADevice, ThatCoupleElementsAreRefused) {
  const PyTree params{{"w", at::ones({3}).to(pretend_device())}};
  const optim::FunctionalOptimizer optimizer = optim::adamw({.update_rms_clip = 0.5});
  optim::OptimizerState state = optimizer.init(params);
  EXPECT_THAT([&] { optimizer.step_(params, params, state); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("root mean square of the whole update")));
}

TEST(OptimizersOnADevice, RefuseAStateInHostMemory) {
  const PyTree params{{"w", at::ones({3})}}, moved = on(pretend_device(), params);
  const optim::FunctionalOptimizer optimizer = optim::adam({});
  optim::OptimizerState state = optimizer.init(params);
  EXPECT_THROW(optimizer.step_(moved, moved, state), UsageError);
}

TEST(StepOnADevice, FollowsTheProcessorsAndLeavesParametersAndStateThere) {
  RegressionRun here("device-here"), there("device-there");
  DeviceRun device(pretend_device());
  StepParts parts_here = here.parts(), parts_there = there.parts();
  parts_there.device = &device;
  TrainingState state_here = here.initial(parts_here), state_there = there.initial(parts_there);
  settle_on_device(device, parts_there.optimizer, state_there);
  DataLoader loader_here = here.loader(), loader_there = there.loader();
  while (state_here.step() < here.plan.steps()) {
    const PrivateStatistics expected =
        train_step(parts_here, state_here, [&] { return loader_here.next(); }).statistics;
    const PrivateStatistics made = train_step(parts_there, state_there, [&] { return loader_there.next(); }).statistics;
    EXPECT_EQ(made.batch_size, expected.batch_size);
    EXPECT_EQ(made.num_clipped, expected.num_clipped);
  }
  EXPECT_EQ(device_of(state_there.params), pretend_device());
  EXPECT_EQ(device_of(state_there.optimizer.slots.at("trace")), pretend_device());
  const at::Tensor expected = flatten(state_here.params), made = flatten(host_copy(state_there).params);
  EXPECT_GT(expected.norm().item<double>(), 0.1);
  // Sums of a draw of about forty examples in float32, in another order.
  EXPECT_LE((made - expected).norm().item<double>(), 1e-5 * expected.norm().item<double>());
}

TEST(StepOnADevice, TakesWhatRankZeroBroadcasts) {
  RegressionRun run("device-rank0");
  DeviceRun device(pretend_device());
  StepParts parts = run.parts({.noise_from_rank0 = true});
  parts.device = &device;
  TrainingState state = run.initial(parts);
  settle_on_device(device, parts.optimizer, state);
  DataLoader loader = run.loader();
  train_step(parts, state, [&] { return loader.next(); });
  EXPECT_GT(flatten(host_copy(state).params).norm().item<double>(), 0);
}

std::uint64_t hash_of(std::span<const std::uint32_t> words, std::uint64_t position = 0) {
  std::uint64_t sum = 0;
  add_word_hashes_on_device(words.data(), words.size(), position, &sum, nullptr);
  return sum;
}

TEST(HashOfParameters, SeesEveryBitAndEveryPlaceInWhateverPiecesItIsMade) {
  std::array<std::uint32_t, 64> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i / 2 * 0x9e3779b9U);
  const std::uint64_t whole = hash_of(words);
  EXPECT_EQ(hash_of(std::span(words).first(10)) + hash_of(std::span(words).subspan(10), 10), whole);
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      auto other = words;
      other[i] ^= std::uint32_t{1} << bit;
      EXPECT_NE(hash_of(other), whole) << "word " << i << ", bit " << bit;
    }
  }
  auto swapped = words;
  std::swap(swapped[1], swapped[2]);
  EXPECT_NE(hash_of(swapped), whole);
}

}  // namespace
}  // namespace ripieno

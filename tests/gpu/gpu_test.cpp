// What only a CUDA device can show. Every test reports as skipped where there is none, or where the build has no CUDA.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/comm/backend.hpp>
#include <ripieno/framework/comm/nccl_sums.hpp>
#include <ripieno/framework/core/device_stream.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/random/normal.hpp>
#include <ripieno/framework/random/normal_device.hpp>
#include <ripieno/framework/training/device_hash.hpp>
#include <ripieno/framework/training/device_state.hpp>
#include <ripieno/framework/training/word_hash.hpp>
#include <vector>

#include "step_models.hpp"
#include "varied_optimizers.hpp"

namespace ripieno {
namespace {

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const DevicePlace place = place_of(cuda::linked_device_api(), 0);
    if (place.device < 0) GTEST_SKIP() << place.why_none;
    device_ = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(place.device));
    run_.emplace(device_);  // TF32 off
  }

  [[nodiscard]] at::Tensor empty(std::int64_t size, at::ScalarType type) const {
    return at::empty({size}, at::TensorOptions().dtype(type).device(device_));
  }

  at::Device device_ = at::kCPU;
  std::optional<DeviceRun> run_;
};

using NoiseOnDevice = OnDevice;

TEST_F(NoiseOnDevice, HasTheProcessorsBitsOverHundredMillionValues) {
  constexpr std::size_t k_piece = 10'000'000;
  const Key secret = key(11);
  std::vector<float> expected(k_piece);
  const at::Tensor made = empty(k_piece, at::kFloat);
  for (std::uint64_t piece = 0; piece < 10; ++piece) {
    const std::uint64_t position = piece * k_piece + 77;  // cuts tiles
    fill_normal(std::span(expected), secret, 3, position, 1.25, 4);
    fill_normal_on_device(made.mutable_data_ptr<float>(), k_piece, secret, 3, position, 1.25, current_stream(device_));
    const at::Tensor host = made.cpu();
    ASSERT_EQ(std::memcmp(host.const_data_ptr<float>(), expected.data(), k_piece * sizeof(float)), 0)
        << "in piece " << piece;
  }
}

TEST_F(NoiseOnDevice, HasTheProcessorsBitsInDoubleAndWhenAdded) {
  constexpr std::int64_t k_size = 1'000'003;
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor host = at::randn({k_size}, type), on_device = host.to(device_);
    const auto noise = gaussian_noise({.noise_multiplier = 0.7, .key = key(5)}).first;
    (void)noise.apply_(host, 1.5, 9);
    (void)noise.apply_(on_device, 1.5, 9);
    EXPECT_TRUE(at::equal(on_device.cpu(), host));
  }
}

using StateOnDevice = OnDevice;

TEST_F(StateOnDevice, IsUpdatedToTheProcessorsBitsByEveryOptimizer) {
  for (const optim::FunctionalOptimizer& optimizer : testing::varied_optimizers()) {
    if (!optimizer.coupling().empty()) continue;
    at::manual_seed(4);
    const PyTree params{{"b", at::randn({1000})}, {"w", at::randn({1000, 999})}};
    TrainingState here{params, optimizer.init(params), {}}, there = host_copy(here);
    settle_on_device(*run_, optimizer, there);
    for (int step = 0; step < 4; ++step) {
      const PyTree gradient = params.map([](const at::Tensor& leaf) { return at::randn_like(leaf); });
      optimizer.step_(here.params, gradient, here.optimizer, 3.7);
      optimizer.step_(there.params, run_->mirror(gradient), there.optimizer, 3.7);
    }
    EXPECT_TRUE(there.params["w"].tensor().is_cuda());
    const TrainingState made = host_copy(there);
    EXPECT_TRUE(at::equal(flatten(made.params), flatten(here.params))) << optimizer.name();
    EXPECT_EQ(made.optimizer, here.optimizer) << optimizer.name();
  }
}

TEST_F(StateOnDevice, HasTheHashThatItsWordsAddUpTo) {
  constexpr std::int64_t k_size = 3'000'001;
  const at::Tensor values = at::arange(k_size, at::kFloat), sum = empty(1, at::kLong).zero_();
  const at::Tensor moved = values.to(device_);
  add_word_hashes_on_device(static_cast<const std::uint32_t*>(moved.const_data_ptr()), k_size, 5,
                            static_cast<std::uint64_t*>(sum.mutable_data_ptr()), current_stream(device_));
  std::uint64_t expected = 0;
  const auto* words = static_cast<const std::uint32_t*>(values.const_data_ptr());
  for (std::uint64_t i = 0; i < k_size; ++i) expected += word_hash(words[i], 5 + i);
  EXPECT_EQ(static_cast<std::uint64_t>(sum.item<std::int64_t>()), expected);
}

using NcclOnDevice = OnDevice;

TEST_F(NcclOnDevice, OneRanksSumIsItsOwnAndWaitsForItsProducer) {
  const std::unique_ptr<Communicator> alone = make_null_communicator();
  NcclSums sums(*cuda::linked_device_api(), *alone, device_.index(), {.start_s = 60}, nullptr);
  constexpr std::int64_t k_size = 1 << 24, k_buckets = 4;
  at::manual_seed(2);
  const at::Tensor host = at::randn({k_size});
  at::Tensor values = host.to(device_);
  for (int step = 0; step < 3; ++step) {
    values = values * 2;  // queued
    for (const at::Tensor& bucket : values.chunk(k_buckets)) {
      sums.begin({.data = bucket.mutable_data_ptr(), .count = static_cast<std::size_t>(bucket.numel())},
                 current_stream(device_));
    }
    for (std::int64_t i = 0; i < k_buckets; ++i) sums.hold_up(current_stream(device_));
    const at::Tensor used = values + 1;
    sums.finish();
    EXPECT_TRUE(at::equal(used.cpu(), host * std::pow(2, step + 1) + 1));
  }
}

class EnginesOnDevice : public OnDevice, public ::testing::WithParamInterface<std::string> {};

TEST_P(EnginesOnDevice, AgreeWithTheLoopOnTheProcessor) {
  at::manual_seed(3);
  const benchmark::Workload workload = benchmark::make_workload(GetParam());
  const auto wide = [](const at::Tensor& tensor) {
    return tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor;
  };
  std::vector<at::Tensor> batch, batch_on_device;
  for (const at::Tensor& tensor : workload.batch) {
    batch.push_back(wide(tensor.narrow(0, 0, 6)));
    batch_on_device.push_back(batch.back().to(device_));
  }
  const PyTree params = workload.params.map(wide);
  const PyTree params_on_device = params.map([&](const at::Tensor& leaf) { return leaf.to(device_); });
  const ClippingOptions options{.clipping_norm = 0.5, .sum_dtype = at::kDouble};
  const auto sum_by = [&](EngineKind kind, const PyTree& tree, const std::vector<at::Tensor>& examples) {
    return clipped_sum(*make_engine(kind), workload.loss, tree, examples, microbatch_cuts(6, 0), options);
  };
  const ClippedSum expected = sum_by(EngineKind::loop, params, batch);
  for (const EngineKind kind : {EngineKind::bookkeeping, EngineKind::vmap, EngineKind::loop}) {
    const ClippedSum made = sum_by(kind, params_on_device, batch_on_device);
    const double error = (made.flat.cpu() - expected.flat).norm().item<double>();
    EXPECT_LE(error, 1e-8 * expected.flat.norm().item<double>()) << "engine " << static_cast<int>(kind);
    EXPECT_EQ(made.num_clipped, expected.num_clipped);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EnginesOnDevice, ::testing::Values("mlp-256", "cnn-256", "transformer", "resnet"));

}  // namespace
}  // namespace ripieno

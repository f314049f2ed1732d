// tests/data/reductions.json and noise_metadata.json, on the numbers of ranks that they were made with.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/distributed/gather.hpp>
#include <ripieno/framework/distributed/reduce.hpp>
#include <ripieno/framework/distributed/reduce_pytree.hpp>
#include <ripieno/framework/distributed/scalars.hpp>
#include <ripieno/framework/distributed/sync.hpp>
#include <ripieno/framework/distributed/tensors.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>
#include <ripieno/framework/random/key.hpp>

#include "mpi_test.hpp"

namespace {

namespace distributed = ripieno::distributed;
using distributed::Op;
using ripieno::Clipped;
using ripieno::Extent;
using ripieno::Json;
using ripieno::Noised;
using ripieno::PerfState;
using ripieno::PyTree;
using ripieno::testing::world;

Json read(const std::string& name) {
  std::ifstream file(std::string(RIPIENO_TEST_DATA) + "/" + name);
  return Json::parse(file);
}

Op op_named(const std::string& name) {
  static const std::map<std::string, Op> ops = {
      {"sum", Op::sum}, {"mean", Op::mean}, {"max", Op::max}, {"min", Op::min}, {"product", Op::product}};
  return ops.at(name);
}

at::ScalarType dtype_named(const std::string& name) {
  static const std::map<std::string, at::ScalarType> dtypes = {
      {"float32", at::kFloat}, {"float64", at::kDouble}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16},
      {"int64", at::kLong},    {"int32", at::kInt},      {"uint8", at::kByte},   {"bool", at::kBool}};
  return dtypes.at(name);
}

/// The records for this many ranks.
struct ReductionsOracle : ::testing::Test {
  void SetUp() override {
    const Json file = read("reductions.json");
    for (const Json& candidate : file.at("worlds")) {
      if (candidate.at("world_size") == world().size()) records = candidate;
    }
    if (records.is_null()) GTEST_SKIP() << "made with 2 and 4 ranks";
  }
  static const Json& mine(const Json& of_ranks) { return of_ranks.at(static_cast<std::size_t>(world().rank())); }

  Json records;
};

TEST_F(ReductionsOracle, Tensors) {
  int checked = 0;
  for (const Json& record : records.at("tensors")) {
    const at::ScalarType dtype = dtype_named(record.at("dtype"));
    const auto tensor = [&](const Json& values) { return at::tensor(values.get<std::vector<double>>()).to(dtype); };
    const Op op = op_named(record.at("op"));
    const bool wraps = dtype == at::kByte && (op == Op::sum || op == Op::product);  // there; an error here
    if (wraps) {
      EXPECT_THROW(static_cast<void>(distributed::all_reduce(tensor(mine(record.at("in"))), op, world())),
                   ripieno::CommError);
    } else {
      const at::Tensor result = distributed::all_reduce(tensor(mine(record.at("in"))), op, world());
      const bool rounded_there = op == Op::product && (dtype == at::kBFloat16 || dtype == at::kHalf);
      const at::Tensor expected = tensor(record.at("out"));
      EXPECT_TRUE(rounded_there ? at::allclose(result, expected, 1e-2) : at::equal(result, expected)) << record.dump();
    }
    ++checked;
  }
  EXPECT_GE(checked, 35);
}

TEST_F(ReductionsOracle, Scalars) {
  for (const Json& record : records.at("scalars")) {
    const Op op = op_named(record.at("op"));
    const double value = mine(record.at("in"));
    const auto integer = static_cast<std::int64_t>(value);
    const auto dtype = record.at("float64").get<bool>() ? at::kDouble : at::kFloat;
    const double result = record.at("type") == "float"
                              ? distributed::reduce_scalar(value, op, {.compute_dtype = dtype}, world())
                          : op == Op::mean ? distributed::mean_scalar(integer, world())
                                           : static_cast<double>(distributed::reduce_scalar(integer, op, world()));
    const double expected = record.at("out");
    EXPECT_NEAR(result, expected, (dtype == at::kDouble ? 1e-15 : 1e-6) * std::abs(expected)) << record.dump();
  }
}

TEST_F(ReductionsOracle, Carriers) {
  const at::Tensor values = at::full({2}, world().rank() + 1);
  const Clipped<PyTree> clipped(values.to(at::kFloat), 0.5, Extent::local);
  const auto key = static_cast<std::uint64_t>(world().rank());
  const Noised<PyTree> noised(values.to(at::kFloat), 0.5, 1.0, key, Extent::local);
  const Json& carriers = records.at("carriers");
  const auto check = [](const auto& result, const Json& expected) {
    EXPECT_TRUE(at::equal(result.tree().tensor(),
                          at::tensor(expected.at("x").template get<std::vector<double>>(), at::kFloat)));
    EXPECT_EQ(result.max_norm(), expected.at("max_norm").template get<double>());
  };
  check(distributed::reduce_pytree(clipped, Op::sum, world()), carriers.at("clipped sum"));
  check(distributed::reduce_pytree(clipped, Op::mean, world()), carriers.at("clipped mean"));
  const auto sum = distributed::reduce_pytree(noised, Op::sum, world());
  check(sum, carriers.at("noised sum"));
  EXPECT_DOUBLE_EQ(*sum.noise_stddev(), carriers.at("noised sum").at("noise_stddev").get<double>());
  const auto mean = distributed::reduce_pytree(noised, Op::mean, world());
  check(mean, carriers.at("noised mean"));
  EXPECT_DOUBLE_EQ(*mean.noise_stddev(), carriers.at("noised mean").at("noise_stddev").get<double>());
  EXPECT_THROW(static_cast<void>(distributed::reduce_pytree(clipped, Op::max, world())), ripieno::UsageError);
  EXPECT_THROW(static_cast<void>(distributed::reduce_pytree_(clipped, Op::mean, world())), ripieno::UsageError);
  EXPECT_EQ(distributed::reduce_pytree_(clipped, Op::sum, world()).max_norm(), 0.5);
}

TEST_F(ReductionsOracle, Gather) {
  // Rank r gives r + 1 columns: 10 r, 10 r + 1, … over r, …
  const Json& whole = records.at("gather 2d dim1");
  const auto sizes = whole.at("shape").get<std::vector<std::int64_t>>();
  const at::Tensor all = at::tensor(whole.at("data").get<std::vector<double>>()).view(sizes);
  const std::int64_t rank = world().rank();
  const at::Tensor mine = all.narrow(1, rank * (rank + 1) / 2, rank + 1);
  EXPECT_TRUE(at::equal(distributed::gather_tensors(mine, 1, world()), all));
  const at::Tensor uneven = at::arange(rank + 1, at::kDouble);
  EXPECT_TRUE(at::equal(distributed::gather_tensors(uneven, 0, world()),
                        at::tensor(records.at("gather uneven").get<std::vector<double>>())));
}

TEST_F(ReductionsOracle, PerfState) {
  const Json& in = mine(records.at("perf").at("in"));
  const auto peak = static_cast<std::int64_t>(in.at("peak").get<double>() * 1e9);
  PerfState state;
  const double first_s = in.at("total_time").get<double>() - in.at("stable_time").get<double>();
  const auto first_samples = in.at("total_samples").get<std::int64_t>() - in.at("stable_samples").get<std::int64_t>();
  state.add({.step_time_s = first_s, .batch_size = first_samples});
  state.add({.step_time_s = in.at("stable_time"), .batch_size = in.at("stable_samples"), .peak_memory_bytes = peak});
  const PerfState all = distributed::sync(world(), state);
  const Json& out = records.at("perf").at("out");
  EXPECT_EQ(all.num_steps, out.at("num_steps").get<std::int64_t>());
  EXPECT_EQ(all.total_time_s, out.at("total_time").get<double>());
  EXPECT_EQ(all.total_samples, out.at("total_samples").get<std::int64_t>());
  EXPECT_EQ(all.stable_time_s, out.at("stable_time").get<double>());
  EXPECT_EQ(all.stable_samples, out.at("stable_samples").get<std::int64_t>());
  EXPECT_EQ(static_cast<double>(all.peak_memory_bytes), out.at("peak").get<double>() * 1e9);
  ASSERT_TRUE(all.last);
  EXPECT_EQ(all.last->samples_per_second(), out.at("last").at("samples_per_second").get<double>());
  EXPECT_EQ(all.average_step_time_s(), out.at("to_dict").at("avg_step_time_sec").get<double>());
}

/// Standard deviation of the elements.
double realised(const PyTree& tree) { return tree.tensor().to(at::kDouble).std().item<double>(); }

TEST(NoiseRegimes, PublishWhatTheyRealise) {
  const int size = world().size();
  const Json file = read("noise_metadata.json");
  for (const Json& row : file.at("rows")) {
    if (row.at("world_size") != size) continue;
    const std::string name = row.at("row");
    const bool shared = name.starts_with("shared");
    const bool after_sum = name.find("sum then noise") != std::string::npos;
    const Op op = name.ends_with("mean") ? Op::mean : Op::sum;
    const ripieno::Key key = shared ? ripieno::key(7) : fold_in(ripieno::key(7), world().rank());
    const auto [noise, state] =
        ripieno::gaussian_noise({.noise_multiplier = row.at("noise_multiplier"),
                                 .key = key,
                                 .scope = after_sum ? ripieno::NoiseScope::after_sum : ripieno::NoiseScope::per_rank,
                                 .world_size = size});
    const Clipped<PyTree> mine(at::zeros({20'000}), row.at("max_norm"), Extent::local);
    if (after_sum) {
      const auto noisy = noise(distributed::sum_gradients(mine, world()), state).first;
      EXPECT_EQ(noisy.noise_stddev(), row.at("published_stddev").get<double>());
      EXPECT_NEAR(realised(noisy.tree()), *noisy.noise_stddev(), 0.03 * *noisy.noise_stddev());
      continue;
    }
    const auto noisy = noise(mine, state).first;
    if (shared) {  // the reference publishes too little here
      EXPECT_THROW(static_cast<void>(distributed::reduce_pytree(noisy, op, world())), ripieno::PrivacyError);
      const double total = realised(distributed::reduce_pytree(noisy.tree(), op, world()));
      EXPECT_NEAR(total, row.at("realised_stddev").get<double>(), 0.03 * total);
      continue;
    }
    const auto total = distributed::reduce_pytree(noisy, op, world());
    EXPECT_DOUBLE_EQ(*total.noise_stddev(), row.at("published_stddev").get<double>());
    EXPECT_NEAR(realised(total.tree()), *total.noise_stddev(), 0.03 * *total.noise_stddev());
  }
}

}  // namespace

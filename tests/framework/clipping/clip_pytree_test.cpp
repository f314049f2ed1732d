#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/clipping/clip_pytree.hpp>
#include <string>

#include "exact_norm.hpp"

// Values recorded from an independent implementation: tests/data/clip_cast.json (186 trees and 36 long leaves) and
// tests/data/clip_values.json (12 explicit gradients under 28 rules). Tolerance: the bits of bfloat16, float16 and
// float32; 2 units in the last place of float64.
//
// That implementation squares without scaling. Where squares underflow it lets trees pass that exceed tiny bounds, and
// where they overflow it erases the example; here the bound holds and the direction stays, so those cases are held to
// the bound in place of its bits.

namespace ripieno {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::norm_is_within;

const std::vector<std::pair<std::string, at::ScalarType>> k_dtypes = {{"bfloat16", at::kBFloat16},
                                                                      {"float16", at::kHalf},
                                                                      {"float32", at::kFloat},
                                                                      {"float64", at::kDouble},
                                                                      {"int64", at::kLong}};

at::ScalarType dtype_of(const std::string& name) {
  for (const auto& [known, dtype] : k_dtypes)
    if (known == name) return dtype;
  throw std::runtime_error("dtype " + name);
}

double number(const Json& json) { return json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>(); }

at::Tensor from_bits(const std::vector<std::string>& bits, at::ScalarType dtype) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bits.size())}, dtype);
  auto* bytes = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const std::size_t size = tensor.element_size();
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::uint64_t value = std::stoull(bits[i], nullptr, 16);
    std::memcpy(bytes + i * size, &value, size);  // little-endian
  }
  return tensor;
}

std::uint64_t bits_at(const at::Tensor& tensor, std::int64_t i) {
  std::uint64_t value = 0;
  const auto size = static_cast<std::size_t>(tensor.element_size());
  std::memcpy(&value, static_cast<const std::byte*>(tensor.const_data_ptr()) + static_cast<std::size_t>(i) * size,
              size);
  return value;
}

void expect_same_bits(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(actual.numel(), expected.numel());
  const at::Tensor a = actual.contiguous(), e = expected.contiguous();
  const std::uint64_t tolerance = a.scalar_type() == at::kDouble ? 2 : 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const std::uint64_t x = bits_at(a, i), y = bits_at(e, i);
    EXPECT_LE(x > y ? x - y : y - x, tolerance) << "element " << i << ": " << std::hex << x << " and " << y;
  }
}

/// A recorded tree of one or several leaves, in order.
struct Recorded {
  explicit Recorded(const Json& json) {
    PyTree::List in;
    for (std::size_t i = 0; i < json.at("in").size(); ++i) {
      const at::ScalarType dtype = dtype_of(json.at("in")[i].at("dtype"));
      in.emplace_back(from_bits(json.at("in")[i].at("bits"), dtype));
      expected.push_back(from_bits(json.at("out_bits")[i], dtype));
      integers = integers || dtype == at::kLong;
    }
    tree = PyTree(in);
  }
  PyTree tree;
  std::vector<at::Tensor> expected;
  bool integers = false;
};

/// Whether squares of these elements stay clear of under- and overflow in the type that the recorded run squared in.
bool squares_are_safe(const std::vector<at::Tensor>& leaves, const std::string& norm_dtype) {
  if (norm_dtype != "float32" && norm_dtype != "float64") return true;
  const double least = norm_dtype == "float32" ? 0x1p-62 : 0x1p-510;
  const double most = norm_dtype == "float32" ? 0x1p62 : 0x1p500;
  double largest = 0;
  for (const at::Tensor& leaf : leaves)
    largest = std::max(largest, leaf.to(at::kDouble).nan_to_num(0, 0, 0).abs().max().item<double>());
  return largest == 0 || (largest > least && largest < most);
}

TEST(ClipPytree, HasTheRecordedBits) {
  const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/clip_cast.json");
  ASSERT_EQ(file.at("cases").size(), 186U);
  int compared = 0;
  for (const Json& json : file.at("cases")) {
    SCOPED_TRACE(json.at("label").get<std::string>() + ", bound " + json.at("bound").dump() + ", compute " +
                 json.at("compute_dtype").dump());
    const Recorded recorded(json);
    const double bound = number(json.at("bound"));
    ClipOptions options{.non_finite = NonFinite::zero_entries, .return_zero = json.at("return_zero").get<bool>()};
    if (!json.at("compute_dtype").is_null()) options.compute_dtype = dtype_of(json.at("compute_dtype"));
    if (recorded.integers) {
      EXPECT_THROW((void)clip_pytree(recorded.tree, bound, options), UsageError);
      continue;
    }
    const ClippedTree clipped = json.at("auto_gamma").is_null()
                                    ? clip_pytree(recorded.tree, bound, options)
                                    : auto_scale_pytree(recorded.tree, bound, number(json.at("auto_gamma")), options);
    const std::vector<at::Tensor> out = clipped.tree.leaves();
    const bool bounded = !std::isfinite(bound) || norm_is_within(out, std::max(bound, 0.0));
    EXPECT_TRUE(bounded);
    if (!squares_are_safe(recorded.tree.leaves(), json.at("norm_dtype"))) continue;
    ++compared;
    for (std::size_t i = 0; i < out.size(); ++i) expect_same_bits(out[i], recorded.expected[i]);
    const std::string norm_dtype = json.at("norm_dtype");
    const double tolerance = norm_dtype == "float64" ? 1e-12 : norm_dtype == "float32" ? 1e-6 : 1e-2;
    const double norm = number(json.at("norm"));
    EXPECT_NEAR(clipped.norm, norm, tolerance * norm);
  }
  EXPECT_GE(compared, 120);
}

TEST(ClipPytree, HasTheRecordedBitsForLongLeaves) {
  const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/clip_cast.json");
  ASSERT_EQ(file.at("large").size(), 36U);
  for (const Json& json : file.at("large")) {
    const auto n = json.at("n").get<std::int64_t>();
    SCOPED_TRACE(json.at("dtype").get<std::string>() + " of " + std::to_string(n));
    at::Tensor values = at::empty({n}, at::kDouble);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto mixed = static_cast<std::uint32_t>(static_cast<std::uint64_t>(i) * 2654435761U);
      values.data_ptr<double>()[i] = static_cast<double>(mixed) / 4294967296.0 - 0.5;
    }
    const at::ScalarType dtype = dtype_of(json.at("dtype"));
    const auto bound = json.at("bound").get<double>();
    const at::Tensor out = clip_pytree(PyTree(values.to(dtype)), bound).tree.tensor();
    expect_same_bits(out.narrow(0, 0, 8), from_bits(json.at("first_bits"), dtype));
    expect_same_bits(out.narrow(0, n - 8, 8), from_bits(json.at("last_bits"), dtype));
    EXPECT_TRUE(norm_is_within({out}, bound));
    if (dtype == at::kDouble) continue;
    std::uint64_t fnv = 14695981039346656037U;
    const auto* bytes = static_cast<const unsigned char*>(out.const_data_ptr());
    for (std::size_t i = 0; i < out.nbytes(); ++i) fnv = (fnv ^ bytes[i]) * 1099511628211U;
    EXPECT_EQ(fnv, std::stoull(json.at("fnv1a64_le_bytes").get<std::string>(), nullptr, 16));
  }
}

/// The recorded implementation rounds the bound down to float32.
double rounded_down(double value) {
  const auto nearest = static_cast<float>(value);
  return nearest <= value ? nearest : std::nextafter(nearest, 0.0F);
}

ClippedTree clip_recorded(const PyTree& tree, const Json& rule) {
  const ClipOptions options{.non_finite = NonFinite::zero_entries};
  const bool automatic = !rule.at("gamma").is_null();
  if (rule.at("C") != "per_group") {
    const double bound = rounded_down(number(rule.at("C")));
    return automatic ? auto_scale_pytree(tree, bound, number(rule.at("gamma")), options)
                     : clip_pytree(tree, bound, options);
  }
  // g1 holds leaf a, g2 leaf b.
  const PerGroup bounds({{"a", "g1"}, {"b", "g2"}}, {{"g1", rule.at("C_values").at("g1").get<double>()},
                                                     {"g2", rule.at("C_values").at("g2").get<double>()}});
  return automatic ? auto_scale_pytree(tree, bounds, number(rule.at("gamma")), options)
                   : clip_pytree(tree, bounds, options);
}

TEST(ClipPytree, HasTheRecordedBitsOfExplicitGradients) {
  const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/clip_values.json");
  ASSERT_EQ(file.at("cases").size(), 28U);
  int compared = 0;
  for (const Json& rule : file.at("cases")) {
    const at::ScalarType dtype = dtype_of(rule.at("dtype"));
    for (std::size_t row = 0; row < file.at("rows").size(); ++row) {
      SCOPED_TRACE(rule.at("dtype").dump() + " C " + rule.at("C").dump() + " gamma " + rule.at("gamma").dump() +
                   " row " + std::to_string(row));
      std::vector<double> values;
      for (const Json& value : file.at("rows")[row]) values.push_back(number(value));
      const at::Tensor all = at::tensor(values, at::kDouble).to(dtype);
      const PyTree tree{{"a", all.narrow(0, 0, 3)}, {"b", all.narrow(0, 3, 2)}};
      const ClippedTree clipped = clip_recorded(tree, rule);
      if (!squares_are_safe({all}, dtype == at::kDouble ? "float64" : "float32")) continue;
      ++compared;
      const Json& bits = rule.at("per_example_bits")[row];
      for (const char* leaf : {"a", "b"}) expect_same_bits(clipped.tree[leaf], from_bits(bits.at(leaf), dtype));
      const double norm = number(rule.at("norms")[row]);
      EXPECT_NEAR(clipped.norm, norm, (dtype == at::kDouble ? 1e-12 : 1e-6) * norm);
    }
  }
  EXPECT_GE(compared, 28 * 9);
}

/// RIPIENO_FULL=1 runs the whole count.
int count_of(int full, int reduced) { return std::getenv("RIPIENO_FULL") != nullptr ? full : reduced; }

const std::vector<at::ScalarType> k_float_types = {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble};

class Random {
 public:
  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  /// Log-uniform over what float32 holds, subnormal numbers included.
  double magnitude() { return std::pow(10.0, uniform(-45, 38)); }
  std::size_t below(std::size_t n) { return engine_() % n; }
  at::Tensor values(std::int64_t n, double magnitude, at::ScalarType dtype) {
    at::Tensor tensor = at::empty({n}, at::kDouble);
    for (std::int64_t i = 0; i < n; ++i) tensor.data_ptr<double>()[i] = magnitude * uniform(-1, 1);
    return tensor.to(dtype).nan_to_num(0, 0, 0);  // beyond the range of float16
  }

 private:
  std::mt19937_64 engine_{42};
};

TEST(ClipPytree, Invariant_P5_TheBoundHoldsForStoredBitsOfAnyMagnitude) {
  Random random;
  const int cases = count_of(1'000'000, 8'000);
  int clipped = 0;
  for (int i = 0; i < cases; ++i) {
    const at::ScalarType dtype = k_float_types[random.below(4)];
    const double magnitude = random.magnitude();
    const at::Tensor values = random.values(1 + static_cast<std::int64_t>(random.below(6)), magnitude, dtype);
    // Half of the bounds are near the norm, where rounding decides; the others are anywhere.
    const double bound = random.below(2) == 0 ? magnitude * random.uniform(0, 2) : random.magnitude();
    ClipOptions options;
    if (random.below(4) == 0) options.compute_dtype = k_float_types[random.below(4)];
    const at::Tensor out = clip_pytree(PyTree(values), bound, options).tree.tensor();
    ASSERT_TRUE(norm_is_within({out}, bound)) << values << " bound " << bound << " gives " << out;
    clipped += at::equal(out, values) ? 0 : 1;
  }
  EXPECT_GT(clipped, cases / 4);
}

TEST(ClipPytree, Invariant_P5_TheBoundHoldsForWholeTreesOfMixedTypes) {
  Random random;
  for (int i = 0; i < count_of(10'000, 150); ++i) {
    const double magnitude = random.magnitude();
    PyTree::List leaves;
    for (std::size_t leaf = 0; leaf < 2 + random.below(5); ++leaf)
      leaves.emplace_back(random.values(1 + static_cast<std::int64_t>(random.below(200)),
                                        magnitude * std::pow(10.0, random.uniform(-3, 0)),
                                        k_float_types[random.below(4)]));
    const double bound = magnitude * std::pow(10.0, random.uniform(-3, 2));
    const std::vector<at::Tensor> out = clip_pytree(PyTree(leaves), bound).tree.leaves();
    ASSERT_TRUE(norm_is_within(out, bound)) << "tree " << i << " bound " << bound;
    const std::vector<at::Tensor> scaled = auto_scale_pytree(PyTree(leaves), bound, 0.01).tree.leaves();
    ASSERT_TRUE(norm_is_within(scaled, bound)) << "tree " << i << " bound " << bound;
  }
}

TEST(ClipPytree, LosesOnlyRoundingWhereTheBoundIsOrdinary) {
  Random random;
  for (const at::ScalarType dtype : k_float_types) {
    const at::Tensor values = random.values(100, 1, dtype);
    const double norm = values.to(at::kDouble).norm().item<double>();
    const double out = clip_pytree(PyTree(values), norm / 3).tree.tensor().to(at::kDouble).norm().item<double>();
    const double unit = dtype == at::kBFloat16 ? 0x1p-7 : dtype == at::kHalf ? 0x1p-10 : 0x1p-23;
    EXPECT_GT(out, norm / 3 * (1 - 2.5 * unit)) << dtype;
  }
}

TEST(ClipPytree, Invariant_P6_AnExampleThatIsNotFiniteIsZeroUnlessItsEntriesAreAskedFor) {
  const double infinity = std::numeric_limits<double>::infinity();
  const PyTree tree{{"a", at::tensor({3.0F, 4.0F})}, {"b", at::tensor({std::nanf("")})}};
  const ClippedTree whole = clip_pytree(tree, 10);
  EXPECT_TRUE(whole.tree["a"].tensor().equal(at::zeros({2})));
  EXPECT_EQ(whole.norm, infinity);
  const ClippedTree entries = clip_pytree(tree, 10, {.non_finite = NonFinite::zero_entries});
  EXPECT_TRUE(entries.tree["a"].tensor().equal(tree["a"].tensor()));
  EXPECT_TRUE(entries.tree["b"].tensor().equal(at::zeros({1})));
  EXPECT_EQ(entries.norm, 5);
}

TEST(ClipPytree, ScalesComplexLeavesWithBothParts) {
  const at::Tensor values = at::complex(at::tensor({3.0}, at::kDouble), at::tensor({4.0}, at::kDouble));
  const ClippedTree clipped = clip_pytree(PyTree(values), 1);
  EXPECT_EQ(clipped.norm, 5);
  EXPECT_TRUE(clipped.tree.tensor().allclose(values / 5, 1e-12));
  EXPECT_TRUE(norm_is_within({at::view_as_real(clipped.tree.tensor())}, 1));
}

TEST(ClipPytree, RefusesWhatItCannotScaleByName) {
  const auto refuses = [](const char* what) { return ThrowsMessage<UsageError>(HasSubstr(what)); };
  const PyTree tree{{"w", at::ones({2})}};
  EXPECT_THAT([&] { (void)clip_pytree(tree, std::nan("")); }, refuses("bound is not a number"));
  EXPECT_THAT([] { (void)clip_pytree(PyTree{{"n", at::ones({2}, at::kLong)}}, 1); }, refuses("leaf 'n'"));
  EXPECT_THAT([&] { (void)clip_pytree(tree, 1, {.compute_dtype = at::kInt}); }, refuses("Int"));
  EXPECT_THAT([&] { (void)auto_scale_pytree(tree, 1, 0); }, refuses("gamma"));
  EXPECT_THAT([&] { (void)auto_scale_pytree(tree, std::nan(""), 0.01); }, refuses("automatic clipping"));
  EXPECT_THAT([&] { (void)clip_pytree(tree, PerGroup({{"v", "g"}}, {{"g", 1}})); }, refuses("leaf 'w' is in no group"));
}

}  // namespace
}  // namespace ripieno

#include <bit>
#include <cstdint>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/convert.hpp>
#include <utility>

namespace ripieno::io {
namespace {

struct Half {
  std::uint16_t bits;
};

template <class T>
float to_float(T value) {
  return static_cast<float>(value);
}

// Without branches, so that the loop vectorises on a processor that has no instruction for it. The exponent is moved
// from bias 15 to 127; infinity and NaN need the rest of the way to 255, and subnormals are numbers with an exponent
// field of one too little, which the subtraction takes out again.
template <>
float to_float(Half half) {
  constexpr std::uint32_t k_exponent = 0x7c00u << 13;
  constexpr std::uint32_t k_smallest_normal = 113u << 23;
  const std::uint32_t bits = half.bits;
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  const std::uint32_t exponent = magnitude & k_exponent;
  const std::uint32_t rebiased = magnitude + ((127u - 15u) << 23);
  const std::uint32_t non_finite = rebiased + ((128u - 16u) << 23);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rebiased + (1u << 23)) -
                                                               std::bit_cast<float>(k_smallest_normal));
  const std::uint32_t result = exponent == k_exponent ? non_finite : exponent == 0 ? subnormal : rebiased;
  return std::bit_cast<float>(result | ((bits & 0x8000u) << 16));
}

template <class T>
void convert_run(const std::byte* __restrict in, float* __restrict out, std::size_t count, float scale) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, in + i * sizeof(T), sizeof(T));
    out[i] = to_float(value) * scale;
  }
}

void standardise(float* values, std::size_t count, float mean, float std) {
  for (std::size_t i = 0; i < count; ++i) values[i] = (values[i] - mean) / std;
}

}  // namespace

RowConverter::RowConverter(DType dtype, Normalisation normalisation, std::size_t elements)
    : run_(nullptr), normalisation_(std::move(normalisation)), elements_(elements), item_size_(item_size(dtype)) {
  switch (dtype) {
    case DType::u8:
      run_ = convert_run<std::uint8_t>;
      break;
    case DType::i8:
      run_ = convert_run<std::int8_t>;
      break;
    case DType::f16:
      run_ = convert_run<Half>;
      break;
    case DType::f32:
      run_ = convert_run<float>;
      break;
    case DType::i32:
      run_ = convert_run<std::int32_t>;
      break;
    case DType::i64:
      run_ = convert_run<std::int64_t>;
      break;
    case DType::u32:
      run_ = convert_run<std::uint32_t>;
      break;
    case DType::u64:
      run_ = convert_run<std::uint64_t>;
      break;
    case DType::bf16:
    case DType::f64:
      throw UsageError("rows of " + std::string(dtype_name(dtype)), "shards hold none");
  }
}

void RowConverter::operator()(const std::byte* row, float* out) const noexcept {
  const Normalisation& norm = normalisation_;
  if (norm.mean.empty()) {
    run_(row, out, elements_, norm.scale);
    return;
  }
  const std::size_t channel = elements_ / norm.mean.size();
  for (std::size_t c = 0; c < norm.mean.size(); ++c) {
    float* const values = out + c * channel;
    run_(row + c * channel * item_size_, values, channel, norm.scale);
    standardise(values, channel, norm.mean[c], norm.std[c]);
  }
}

}  // namespace ripieno::io

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <ripieno/framework/clipping/per_example_device.hpp>
#include <ripieno/framework/clipping/per_example_products.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <ripieno/framework/clipping/per_example_simd.hpp>
#include <type_traits>
#include <vector>

namespace ripieno::bookkeeping {
namespace {

/// Columns [0, columns) of the result, at most as many as there are lanes: out[j][c] = sum_r u[r][j] * v[r][c]. `v` has
/// all lanes to read in each row.
template <int bytes, class Scalar>
RIPIENO_INLINE void column_block(const Scalar* __restrict u, std::int64_t m, std::int64_t rows,
                                 const Scalar* __restrict v, std::int64_t v_stride, int columns, Scalar* __restrict out,
                                 std::int64_t k) {
  using Vector = Lanes<Scalar, bytes>;
  constexpr int size = bytes == 64 ? 8 : 4;  // rows of the result whose sums stay in registers
  for (std::int64_t j = 0; j < m; j += size) {
    const auto tile = static_cast<int>(std::min<std::int64_t>(size, m - j));
    // An incomplete tile computes its last row several times.
    std::int64_t place[size];
    for (int i = 0; i < size; ++i) place[i] = j + std::min(i, tile - 1);
    Vector sums[size];
    for (std::int64_t r = 0; r < rows; ++r) {
      const Vector factor = Vector::load(v + r * v_stride);
      for (int i = 0; i < size; ++i) sums[i].add_product(factor, u[r * m + place[i]]);
    }
    for (int i = 0; i < size; ++i) {
      if (i >= tile) break;
      Scalar* target = out + (j + i) * k;
      if (columns == Vector::count) {
        sums[i].store(target);
      } else {
        Scalar values[Vector::count];
        sums[i].store(values);
        std::copy_n(values, columns, target);
      }
    }
  }
}

/// out[j][c] = sum_r u[r][j] * v[r][c]; `last` holds the columns of v that fill no register, then zeros.
template <int bytes, class Scalar>
RIPIENO_INLINE void product_inline(const Scalar* u, std::int64_t m, const Scalar* v, std::int64_t k, std::int64_t rows,
                                   const Scalar* last, Scalar* out) {
  constexpr int count = k_lanes<Scalar>;
  std::int64_t c = 0;
  for (; c + count <= k; c += count) column_block<bytes>(u, m, rows, v + c, k, count, out + c, k);
  if (c < k) column_block<bytes>(u, m, rows, last, count, static_cast<int>(k - c), out + c, k);
}

RIPIENO_LANE_KERNEL((void product(const float* u, std::int64_t m, const float* v, std::int64_t k, std::int64_t rows,
                                  const float* last, float* out)),
                    product_inline<bytes>(u, m, v, k, rows, last, out))
RIPIENO_LANE_KERNEL((void product(const double* u, std::int64_t m, const double* v, std::int64_t k, std::int64_t rows,
                                  const double* last, double* out)),
                    product_inline<bytes>(u, m, v, k, rows, last, out))

template <class Scalar>
void fill_last(const Scalar* v, std::int64_t k, std::int64_t rows, std::vector<Scalar>& last) {
  constexpr std::int64_t count = k_lanes<Scalar>;
  const std::int64_t columns = k % count;
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(v + (r + 1) * k - columns, columns, last.data() + r * count);
}

template <class Scalar>
OuterProductSums make(const at::Tensor& u, const at::Tensor& v) {
  const std::int64_t n = u.size(0), heads = u.size(1), rows = u.size(2), m = u.size(3), k = v.size(3);
  const std::int64_t size = heads * m * k;
  OuterProductSums result{at::empty({n, size}, u.options()), at::empty({n}, u.options().dtype(at::kDouble))};
  const auto *left = u.const_data_ptr<Scalar>(), *right = v.const_data_ptr<Scalar>();
  auto* out = result.rows.data_ptr<Scalar>();
  auto* squared_norms = result.squared_norms.data_ptr<double>();
  at::parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Scalar> last(rows * k_lanes<Scalar>);
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t head = i * heads; head < (i + 1) * heads; ++head) {
        const Scalar* factor = right + head * rows * k;
        fill_last(factor, k, rows, last);
        product(left + head * rows * m, m, factor, k, rows, last.data(), out + head * m * k);
      }
      squared_norms[i] = raise_to_bound(sum_of_squares(out + i * size, size), size, std::is_same_v<Scalar, double>);
    }
  });
  return result;
}

}  // namespace

OuterProductSums sums_of_outer_products(const at::Tensor& u, const at::Tensor& v) {
  TORCH_CHECK(u.scalar_type() == v.scalar_type(), "factors of one dtype expected");
  if (!u.is_cpu()) return on_device::sums_of_outer_products(u, v);
  const at::Tensor left = u.contiguous(), right = v.contiguous();
  return left.scalar_type() == at::kFloat ? make<float>(left, right) : make<double>(left, right);
}

}  // namespace ripieno::bookkeeping

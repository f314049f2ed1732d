#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ripieno/framework/clipping/per_example_device.hpp>
#include <ripieno/framework/clipping/per_example_gram.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <ripieno/framework/clipping/per_example_simd.hpp>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

// The forward error of a computed square. Let a_r >= |u_r|, b_r >= |v_r| be bounds, and write the computed inner
// products as u_r.u_s + d, |d| <= g a_r a_s + h. The products of a block of k_block features go through k_block /
// lanes fused multiply-adds and log2(lanes) additions in the dtype's precision, and block sums and the last few
// features through float64: g = gamma_roundings(unit) + gamma_blocks(2^-53) (Higham 2002, section 3.1; the
// Cauchy-Schwarz inequality turns sums of magnitudes into norms), and each of the m products may underflow, by at most
// the smallest normal number even where subnormals are flushed: h = m * min. With g', h' for the v,
//     |computed term - exact term| <= (g + g' + g g') a_r a_s b_r b_s + (1 + g') h b_r b_s + (1 + g) h' a_r a_s + h h',
// summed over r and s: M = sum a_r b_r, A = sum a_r, B = sum b_r give
//     (g + g' + g g') M^2 + (1 + g') h B^2 + (1 + g) h' A^2 + rows^2 h h',
// and the float64 sum of the rows^2 terms adds rows^2 + 3 roundings of their magnitudes. All is raised by a factor of
// two in its small terms instead of being carried exactly.
namespace ripieno::bookkeeping {
namespace {

constexpr int k_tile = 4;              // rows of either factor whose inner products stay in registers
constexpr std::int64_t k_block = 512;  // features summed in the dtype's precision
constexpr double k_unit_double = 0x1p-53;

template <class Scalar>
using RowPointers = std::array<const Scalar*, k_tile>;
using Tile = std::array<double, k_tile * k_tile>;

/// Adds the sum of the lanes of each of four vectors to out.
template <int bytes>
RIPIENO_INLINE void add_lanes(const Lanes<float, bytes>* v, double* out) {
  const auto a = v[0].folded(), b = v[1].folded(), c = v[2].folded(), d = v[3].folded();
  const auto ab = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  const auto cd = __builtin_shufflevector(c, d, 0, 1, 4, 5) + __builtin_shufflevector(c, d, 2, 3, 6, 7);
  const auto sums = __builtin_shufflevector(ab, cd, 0, 2, 4, 6) + __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
  for (int i = 0; i < k_tile; ++i) out[i] += static_cast<double>(sums[i]);
}
template <int bytes>
RIPIENO_INLINE void add_lanes(const Lanes<double, bytes>* v, double* out) {
  for (int i = 0; i < k_tile; i += 2) {
    const auto a = v[i].folded(), b = v[i + 1].folded();
    const auto sums = __builtin_shufflevector(a, b, 0, 2) + __builtin_shufflevector(a, b, 1, 3);
    out[i] += sums[0];
    out[i + 1] += sums[1];
  }
}

/// Adds the inner products of features [begin, end), whole lanes, of `rows` rows with k_tile others.
template <int rows, int bytes, class Scalar>
RIPIENO_INLINE void add_block(const Scalar* const* left, const RowPointers<Scalar>& right, std::int64_t begin,
                              std::int64_t end, double* out) {
  using Vector = Lanes<Scalar, bytes>;
  Vector sums[rows][k_tile];
  for (std::int64_t j = begin; j < end; j += Vector::count) {
    Vector b[k_tile];
    for (int s = 0; s < k_tile; ++s) b[s] = Vector::load(right[s] + j);
    for (int r = 0; r < rows; ++r) {
      const Vector a = Vector::load(left[r] + j);
      for (int s = 0; s < k_tile; ++s) sums[r][s].add_product(a, b[s]);
    }
  }
  for (int r = 0; r < rows; ++r) add_lanes(sums[r], out + r * k_tile);
}

template <int bytes, class Scalar>
RIPIENO_INLINE void inner_products_inline(const RowPointers<Scalar>& left, const RowPointers<Scalar>& right,
                                          std::int64_t size, Tile& out) {
  constexpr int rows = bytes == 64 ? k_tile : 1;  // as many as there are registers for
  const std::int64_t whole = size / k_lanes<Scalar> * k_lanes<Scalar>;
  out.fill(0);
  for (std::int64_t begin = 0; begin < whole; begin += k_block)
    for (int r = 0; r < k_tile; r += rows)
      add_block<rows, bytes>(left.data() + r, right, begin, std::min(begin + k_block, whole), out.data() + r * k_tile);
  for (std::int64_t j = whole; j < size; ++j)
    for (int r = 0; r < k_tile; ++r)
      for (int s = 0; s < k_tile; ++s)
        out[r * k_tile + s] += static_cast<double>(left[r][j]) * static_cast<double>(right[s][j]);
}

RIPIENO_LANE_KERNEL((void inner_products(const RowPointers<float>& left, const RowPointers<float>& right,
                                         std::int64_t size, Tile& out)),
                    inner_products_inline<bytes>(left, right, size, out))
RIPIENO_LANE_KERNEL((void inner_products(const RowPointers<double>& left, const RowPointers<double>& right,
                                         std::int64_t size, Tile& out)),
                    inner_products_inline<bytes>(left, right, size, out))

double gamma(double roundings, double unit) { return roundings * unit / (1 - roundings * unit); }

/// g of the derivation above.
template <class Scalar>
double relative_error(std::int64_t size) {
  constexpr int count = k_lanes<Scalar>;
  const double in_block = static_cast<double>(k_block) / count + std::log2(count) + 1;
  const double outside = static_cast<double>(size / k_block + 1 + count) + 2;
  return gamma(in_block, static_cast<double>(std::numeric_limits<Scalar>::epsilon()) / 2) +
         gamma(outside, k_unit_double);
}

template <class Scalar>
double underflow(std::int64_t size) {
  return static_cast<double>(size) * static_cast<double>(std::numeric_limits<Scalar>::min());
}

/// One matrix of rows, [rows, size].
template <class Scalar>
struct Factor {
  const Scalar* data;
  std::int64_t size;

  /// Rows [first, first + k_tile), the last of all in place of those beyond.
  [[nodiscard]] RowPointers<Scalar> tile(std::int64_t first, std::int64_t rows) const {
    RowPointers<Scalar> pointers;
    for (int i = 0; i < k_tile; ++i) pointers[i] = data + std::min(first + i, rows - 1) * size;
    return pointers;
  }
};

/// What the inner products of one example's rows give.
struct InnerProducts {
  double square = 0;               ///< sum_{r,s} (u_r . u_s)(v_r . v_s)
  std::vector<double> of_u, of_v;  ///< (u_r . u_r), (v_r . v_r)
  std::vector<Tile> tiles;         ///< room: of the u, those of k_tile rows with all before them
};

/// Twice the pairs with s < r and once those with s = r. One factor at a time, so that its rows are read in their
/// order.
template <class Scalar>
void compute(const Factor<Scalar>& u, const Factor<Scalar>& v, std::int64_t rows, InnerProducts& products) {
  products.square = 0;
  products.of_u.resize(static_cast<std::size_t>(rows));
  products.of_v.resize(static_cast<std::size_t>(rows));
  products.tiles.resize(static_cast<std::size_t>((rows + k_tile - 1) / k_tile));
  Tile of_v;
  for (std::int64_t r0 = 0; r0 < rows; r0 += k_tile) {
    for (std::int64_t s0 = 0; s0 <= r0; s0 += k_tile)
      inner_products(u.tile(r0, rows), u.tile(s0, rows), u.size, products.tiles[static_cast<std::size_t>(s0 / k_tile)]);
    for (std::int64_t s0 = 0; s0 <= r0; s0 += k_tile) {
      const Tile& of_u = products.tiles[static_cast<std::size_t>(s0 / k_tile)];
      inner_products(v.tile(r0, rows), v.tile(s0, rows), v.size, of_v);
      if (s0 < r0) {
        double sums[k_tile] = {};
        for (int i = 0; i < k_tile && r0 + i < rows; ++i)
          for (int j = 0; j < k_tile; ++j) sums[j] += of_u[i * k_tile + j] * of_v[i * k_tile + j];
        products.square += 2 * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
        continue;
      }
      for (int i = 0; i < k_tile && r0 + i < rows; ++i) {
        for (int j = 0; j <= i; ++j) {
          const double term = of_u[i * k_tile + j] * of_v[i * k_tile + j];
          products.square += i == j ? term : 2 * term;
        }
        products.of_u[static_cast<std::size_t>(r0 + i)] = of_u[i * k_tile + i];
        products.of_v[static_cast<std::size_t>(r0 + i)] = of_v[i * k_tile + i];
      }
    }
  }
}

/// At least |row|. The computed inner product of the row with itself gives it, unless that has over- or underflown.
template <class Scalar>
double norm_bound(const Scalar* row, std::int64_t size, double product) {
  const double lost = underflow<Scalar>(size);
  if (std::isfinite(product) && product > 0x1p20 * lost)
    return std::sqrt((product + lost) / (1 - relative_error<Scalar>(size))) * (1 + 4 * k_unit_double);
  const double squares = raise_to_bound(sum_of_squares(row, size), size, std::is_same_v<Scalar, double>);
  return std::sqrt(squares) * (1 + 2 * k_unit_double);
}

struct Norms {
  double upper, lower, terms;
};

/// `products`: room to work in.
template <class Scalar>
Norms norms_of(const Factor<Scalar>& u, const Factor<Scalar>& v, std::int64_t rows, InnerProducts& products) {
  compute(u, v, rows, products);
  double total_u = 0, total_v = 0, total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    const double a = norm_bound(u.data + r * u.size, u.size, products.of_u[row]);
    const double b = norm_bound(v.data + r * v.size, v.size, products.of_v[row]);
    total_u += a;
    total_v += b;
    total += a * b;
  }
  const double count = static_cast<double>(rows) * static_cast<double>(rows);
  const double g_u = relative_error<Scalar>(u.size), g_v = relative_error<Scalar>(v.size);
  const double h_u = underflow<Scalar>(u.size), h_v = underflow<Scalar>(v.size);
  const double relative = g_u + g_v + g_u * g_v + 2 * (count + 3) * k_unit_double;
  const double absolute = 2 * (h_u * total_v * total_v + h_v * total_u * total_u + count * h_u * h_v);
  const double evaluation = static_cast<double>(rows + 16) * 2 * k_unit_double;  // roundings in evaluating the bounds
  const double terms = total * total * (1 + evaluation);
  const double error = (relative * terms + absolute) * (1 + evaluation);
  const double square = products.square;
  // The triangle inequality bounds the norm too, also where an inner product overflows. (NaN compares false.)
  const double upper = (square + error) * (1 + evaluation);
  return {.upper = upper <= terms ? std::max(upper, 0.0) : terms,
          .lower = std::isfinite(square) && square > error ? (square - error) * (1 - evaluation) : 0,
          .terms = terms};
}

template <class Scalar>
GramNorms norms_of_all(const at::Tensor& u, const at::Tensor& v) {
  const std::int64_t n = u.size(0), heads = u.size(1), rows = u.size(2), m = u.size(3), k = v.size(3);
  const auto options = u.options().dtype(at::kDouble);
  GramNorms result{at::zeros({n}, options), at::zeros({n}, options), at::zeros({n}, options)};
  const auto *left = u.const_data_ptr<Scalar>(), *right = v.const_data_ptr<Scalar>();
  auto *upper = result.upper.data_ptr<double>(), *lower = result.lower.data_ptr<double>(),
       *terms = result.terms.data_ptr<double>();
  at::parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    InnerProducts products;
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t head = i * heads; head < (i + 1) * heads; ++head) {
        const Norms norms = norms_of<Scalar>({left + head * rows * m, m}, {right + head * rows * k, k}, rows, products);
        upper[i] += norms.upper;
        lower[i] += norms.lower;
        terms[i] += norms.terms;
      }
  });
  const double additions = static_cast<double>(heads) * 2 * k_unit_double;
  result.upper.mul_(1 + additions);
  result.lower.mul_(1 - additions);
  result.terms.mul_(1 + additions);
  return result;
}

}  // namespace

GramNorms gram_norms(const at::Tensor& u, const at::Tensor& v) {
  TORCH_CHECK(u.scalar_type() == v.scalar_type(), "factors of one dtype expected");
  if (!u.is_cpu()) return on_device::gram_norms(u, v);
  const at::Tensor left = u.contiguous(), right = v.contiguous();
  return left.scalar_type() == at::kFloat ? norms_of_all<float>(left, right) : norms_of_all<double>(left, right);
}

}  // namespace ripieno::bookkeeping

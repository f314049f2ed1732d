#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <ripieno/framework/clipping/per_example_device.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <ripieno/framework/clipping/per_example_table.hpp>
#include <vector>

namespace ripieno::bookkeeping {
namespace {

constexpr std::int64_t k_no_id = -1;
constexpr std::int64_t k_grain_elements = 16384;

/// f<Scalar>() for float32 or float64.
template <class F>
void dispatch(at::ScalarType type, F&& f) {
  TORCH_CHECK(type == at::kFloat || type == at::kDouble, "float32 or float64 rows expected");
  if (type == at::kFloat)
    f.template operator()<float>();
  else
    f.template operator()<double>();
}

template <class Scalar>
void add_row(const Scalar* __restrict row, std::int64_t width, Scalar* __restrict sum) {
  for (std::int64_t j = 0; j < width; ++j) sum[j] += row[j];
}

/// One example: rows in the order of `ids` (ascending), which `order` finds in `values`; sums of equal ids, taken in
/// float64 and rounded once, go to the front of `sums`. `total`: room for one row.
template <class Scalar>
void add_equal(const std::int64_t* ids, const std::int64_t* order, const Scalar* values, std::int64_t rows,
               std::int64_t width, std::int64_t* sum_ids, Scalar* sums, std::vector<double>& total) {
  std::int64_t used = 0;
  for (std::int64_t r = 0; r < rows;) {
    if (ids[r] < 0) {
      ++r;
      continue;
    }
    const std::int64_t id = ids[r];
    std::ranges::fill(total, 0);
    for (; r < rows && ids[r] == id; ++r)
      for (std::int64_t j = 0; j < width; ++j) total[j] += static_cast<double>(values[order[r] * width + j]);
    sum_ids[used] = id;
    for (std::int64_t j = 0; j < width; ++j) sums[used * width + j] = static_cast<Scalar>(total[j]);
    ++used;
  }
}

/// Rows [first, last) of the table: adds the values whose id is among them, in their order.
template <class Scalar>
void add_to_table(const std::int64_t* ids, const Scalar* values, std::int64_t count, std::int64_t width,
                  std::int64_t first, std::int64_t last, Scalar* table) {
  for (std::int64_t r = 0; r < count; ++r)
    if (ids[r] >= first && ids[r] < last) add_row(values + r * width, width, table + ids[r] * width);
}

}  // namespace

TableRowsGradient::TableRowsGradient(const at::Tensor& ids, const at::Tensor& values, std::vector<std::int64_t> shape)
    : shape_(std::move(shape)) {
  add_rows_of_equal_id(ids, values);
}

void TableRowsGradient::add_rows_of_equal_id(const at::Tensor& ids, const at::Tensor& values) {
  if (!values.is_cpu()) {
    const on_device::RowsById sums = on_device::sums_of_equal_id(ids, values);
    ids_ = sums.ids;
    values_ = sums.values;
    return;
  }
  const auto [ascending, order] = ids.contiguous().sort(/*stable=*/true, /*dim=*/1, /*descending=*/false);
  const at::Tensor sorted = ascending.contiguous(), places = order.contiguous(), source = values.contiguous();
  ids_ = at::full(sorted.sizes(), k_no_id, sorted.options());
  values_ = at::zeros(source.sizes(), source.options());
  const std::int64_t n = source.size(0), rows = source.size(1), width = source.size(2);
  dispatch(source.scalar_type(), [&]<class Scalar>() {
    const auto* from = source.const_data_ptr<Scalar>();
    auto* to = values_.data_ptr<Scalar>();
    const auto *id = sorted.const_data_ptr<std::int64_t>(), *place = places.const_data_ptr<std::int64_t>();
    auto* kept = ids_.data_ptr<std::int64_t>();
    const std::int64_t grain = std::max<std::int64_t>(1, k_grain_elements / std::max<std::int64_t>(1, rows * width));
    at::parallel_for(0, n, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> total(width);
      for (std::int64_t i = begin; i < end; ++i)
        add_equal(id + i * rows, place + i * rows, from + i * rows * width, rows, width, kept + i * rows,
                  to + i * rows * width, total);
    });
  });
}

at::Tensor TableRowsGradient::squared_norm_bounds() const { return bookkeeping::squared_norm_bounds(values_); }

at::Tensor TableRowsGradient::stored() const {
  const at::Tensor rows = at::zeros({values_.size(0), shape_[0] * values_.size(2)}, values_.options());
  add_to(rows);
  return rows;
}

void TableRowsGradient::add_to(const at::Tensor& rows) const {
  // Rows without an id are zeros, which row 0 may be given.
  const at::Tensor places = ids_.clamp_min(0).unsqueeze(2).expand_as(values_);
  rows.view({values_.size(0), shape_[0], values_.size(2)}).scatter_add_(1, places, values_.to(rows.scalar_type()));
}

at::Tensor TableRowsGradient::weighted_sum(const at::Tensor& weights) const {
  const at::Tensor scaled = scaled_rows(values_, weights);
  if (!scaled.is_cpu()) return on_device::table_of({ids_, scaled}, shape_[0]);
  const at::Tensor table = at::zeros(shape_, values_.options());
  const std::int64_t count = ids_.numel(), width = values_.size(2);
  dispatch(scaled.scalar_type(), [&]<class Scalar>() {
    const auto* from = scaled.const_data_ptr<Scalar>();
    const auto* ids = ids_.const_data_ptr<std::int64_t>();
    auto* to = table.data_ptr<Scalar>();
    // Threads share out the rows of the table, so additions to a row keep their order whatever their number.
    at::parallel_for(
        0, shape_[0], std::max<std::int64_t>(1, shape_[0] * k_grain_elements / (count * width + 1)),
        [&](std::int64_t first, std::int64_t last) { add_to_table(ids, from, count, width, first, last, to); });
  });
  return table;
}

std::int64_t TableRowsGradient::held_bytes() const {
  return static_cast<std::int64_t>(ids_.nbytes() + values_.nbytes());
}

PerExampleGradientPtr TableRowsGradient::transposed() const { return StoredGradient(stored(), shape_).transposed(); }

bool TableRowsGradient::absorb(const PerExampleGradient& other) {
  const auto* table = dynamic_cast<const TableRowsGradient*>(&other);
  if (table == nullptr) return false;
  add_rows_of_equal_id(at::cat({ids_, table->ids_}, 1), at::cat({values_, table->values_}, 1));
  return true;
}

}  // namespace ripieno::bookkeeping

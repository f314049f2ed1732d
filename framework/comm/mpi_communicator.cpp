#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/collective_monitor.hpp>
#include <ripieno/framework/comm/mpi_internal.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <type_traits>
#include <utility>

namespace ripieno {
namespace {

/// Collectives of one process are issued in one fixed order, whichever thread does it. A second caller is a fault of
/// the program that would otherwise show as a hang or a sum of unrelated numbers.
class SerialCall {
 public:
  SerialCall(const char* function, CollectiveMonitor* monitor) : operation_(function) {
    if (in_call.exchange(true)) {
      throw CommError(std::string(function) + " called while another thread is inside a collective",
                      "the order of two would differ between ranks", "let one thread make the collective calls");
    }
    if (monitor != nullptr) passage_.emplace(*monitor, function);
  }
  ~SerialCall() { in_call = false; }
  SerialCall(const SerialCall&) = delete;
  SerialCall& operator=(const SerialCall&) = delete;

 private:
  static inline std::atomic<bool> in_call{false};
  OperationScope operation_;
  std::optional<CollectiveMonitor::Passage> passage_;
};

/// Calls `call` on consecutive pieces of `values` of at most `max_count` elements; not at all for an empty span.
template <class T, class Call>
void for_each_piece(std::span<T> values, int max_count, Call&& call) {
  while (!values.empty()) {
    const auto count = std::min(values.size(), static_cast<std::size_t>(max_count));
    call(values.first(count), static_cast<int>(count));
    values = values.subspan(count);
  }
}

template <class T>
MPI_Datatype mpi_type() {
  if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  if constexpr (std::is_same_v<T, std::int64_t>) return MPI_INT64_T;
}

/// The same bits whichever comes first: one NaN where either is NaN, and +0 above -0.
template <class T, bool largest>
T extreme(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == b) return std::signbit(a) == largest ? b : a;
  return (a > b) == largest ? a : b;
}

template <class T, bool largest>
void take_extreme(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  const T* const from = static_cast<const T*>(in);
  T* const to = static_cast<T*>(inout);
  for (int i = 0; i < *count; ++i) to[i] = extreme<T, largest>(to[i], from[i]);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

void check_mpi(int code, std::string_view function, int rank) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  std::string why = "rank " + std::to_string(rank) + " on " + host_name();
  if (const std::string operation = current_operation(); !operation.empty()) why += ", " + operation;
  why += ": ";
  why += length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "error " + std::to_string(code);
  throw CommError(std::string(function) + " failed", why);
}

CommHandle::CommHandle(CommHandle&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}

CommHandle& CommHandle::operator=(CommHandle&& other) noexcept {
  std::swap(comm_, other.comm_);
  return *this;
}

CommHandle::~CommHandle() {
  if (comm_ == MPI_COMM_NULL || std::uncaught_exceptions() > 0) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&comm_);
}

CommHandle CommHandle::duplicate(MPI_Comm parent) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(parent, &copy), "MPI_Comm_dup", 0);
  CommHandle handle(copy);
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", 0);
  return handle;
}

OpHandle::OpHandle(MPI_User_function* function) {
  check_mpi(MPI_Op_create(function, /*commute=*/1, &op_), "MPI_Op_create", 0);
}

OpHandle::OpHandle(OpHandle&& other) noexcept : op_(std::exchange(other.op_, MPI_OP_NULL)) {}

OpHandle& OpHandle::operator=(OpHandle&& other) noexcept {
  std::swap(op_, other.op_);
  return *this;
}

OpHandle::~OpHandle() {
  if (op_ == MPI_OP_NULL) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Op_free(&op_);
}

MpiCommunicator::MpiCommunicator(MPI_Comm parent, int max_count)
    : comm_(CommHandle::duplicate(parent)),
      float_ops_{OpHandle(take_extreme<float, true>), OpHandle(take_extreme<float, false>)},
      double_ops_{OpHandle(take_extreme<double, true>), OpHandle(take_extreme<double, false>)},
      max_count_(max_count) {
  if (max_count_ <= 0) throw UsageError("pieces of " + std::to_string(max_count_) + " elements", "must be positive");
  check_mpi(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank", 0);
  check_mpi(MPI_Comm_size(comm_.get(), &size_), "MPI_Comm_size", rank_);
}

template <class T>
void MpiCommunicator::in_place(std::span<T> values, MPI_Op op) const {
  const SerialCall call("MPI_Allreduce", monitor_);
  for_each_piece(values, max_count_, [&](std::span<T> piece, int count) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, piece.data(), count, mpi_type<T>(), op, comm_.get()), "MPI_Allreduce", rank_);
  });
}

template <class T>
MPI_Op MpiCommunicator::mpi_op(ReduceOp op) const {
  if (op == ReduceOp::sum) return MPI_SUM;
  if (op == ReduceOp::product) return MPI_PROD;
  const bool max = op == ReduceOp::max;
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return max ? MPI_MAX : MPI_MIN;
  } else {
    const ExtremeOps& ops = std::is_same_v<T, float> ? float_ops_ : double_ops_;
    return max ? ops.max.get() : ops.min.get();
  }
}

void MpiCommunicator::allreduce(std::span<float> values, ReduceOp op) const { in_place(values, mpi_op<float>(op)); }
void MpiCommunicator::allreduce(std::span<double> values, ReduceOp op) const { in_place(values, mpi_op<double>(op)); }

void MpiCommunicator::allreduce(std::span<std::int64_t> values, ReduceOp op) const {
  if (op == ReduceOp::sum) return exact_sum(values);
  if (op == ReduceOp::product) return exact_product(values);
  in_place(values, mpi_op<std::int64_t>(op));
}

void MpiCommunicator::allreduce_sum_unchecked(std::span<std::int64_t> values) const { in_place(values, MPI_SUM); }

void MpiCommunicator::exact_sum(std::span<std::int64_t> values) const {
  // High and low halves are summed apart: neither can overflow, and together they show whether the sum does.
  const std::size_t count = values.size();
  std::vector<std::int64_t> halves(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    halves[i] = values[i] >> 32;
    halves[count + i] = values[i] & 0xffffffff;
  }
  in_place(std::span<std::int64_t>(halves), MPI_SUM);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t carried = halves[i] + (halves[count + i] >> 32);
    if (carried != static_cast<std::int32_t>(carried)) {
      throw CommError("sum over ranks of integer " + std::to_string(i) + " does not fit in 64 bits");
    }
    values[i] = carried * (std::int64_t{1} << 32) + (halves[count + i] & 0xffffffff);
  }
}

void MpiCommunicator::exact_product(std::span<std::int64_t> values) const {
  // No split of the factors would show an overflow, so every rank multiplies all of them, a piece at a time.
  constexpr int k_piece = 1 << 16;
  for_each_piece(values, std::min(k_piece, max_count_), [&](std::span<std::int64_t> piece, int /*count*/) {
    const auto all = allgather(std::as_bytes(piece));
    std::ranges::fill(piece, 1);
    std::vector<std::int64_t> factors(piece.size());
    for (const auto& bytes : all) {
      std::memcpy(factors.data(), bytes.data(), bytes.size());
      for (std::size_t i = 0; i < piece.size(); ++i) {
        if (__builtin_mul_overflow(piece[i], factors[i], &piece[i])) {
          throw CommError("a product over ranks of integers does not fit in 64 bits");
        }
      }
    }
  });
}

namespace {

/// Parts of an array, as MPI counts them.
struct Parts {
  std::vector<int> counts, offsets;
};

Parts parts_of(std::span<const std::int64_t> sizes, std::size_t length, std::size_t ranks) {
  Parts parts;
  std::int64_t offset = 0;
  for (const std::int64_t size : sizes) {
    parts.counts.push_back(static_cast<int>(size));
    parts.offsets.push_back(static_cast<int>(offset));
    offset += size;
  }
  if (sizes.size() != ranks || offset != static_cast<std::int64_t>(length) || offset > MpiCommunicator::k_max_count) {
    throw UsageError("the ranks' parts of " + std::to_string(length) + " values do not fit",
                     "there is one for each rank, together all values, and at most 2^30 of these");
  }
  return parts;
}

}  // namespace

template <class T>
void MpiCommunicator::scatter_sum(std::span<T> values, std::span<const std::int64_t> sizes) const {
  const SerialCall call("MPI_Reduce_scatter", monitor_);
  const Parts parts = parts_of(sizes, values.size(), static_cast<std::size_t>(size_));
  check_mpi(MPI_Reduce_scatter(MPI_IN_PLACE, values.data(), parts.counts.data(), mpi_type<T>(), MPI_SUM, comm_.get()),
            "MPI_Reduce_scatter", rank_);
  // In place, MPI leaves the sum at the beginning.
  const auto rank = static_cast<std::size_t>(rank_);
  const auto size = static_cast<std::size_t>(sizes[rank]);
  if (size > 0) std::memmove(values.data() + parts.offsets[rank], values.data(), size * sizeof(T));
}

template <class T>
void MpiCommunicator::gather_slices(std::span<T> values, std::span<const std::int64_t> sizes) const {
  const SerialCall call("MPI_Allgatherv", monitor_);
  const Parts parts = parts_of(sizes, values.size(), static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values.data(), parts.counts.data(), parts.offsets.data(),
                           mpi_type<T>(), comm_.get()),
            "MPI_Allgatherv", rank_);
}

void MpiCommunicator::reduce_scatter_sum(std::span<float> values, std::span<const std::int64_t> sizes) const {
  scatter_sum(values, sizes);
}
void MpiCommunicator::reduce_scatter_sum(std::span<double> values, std::span<const std::int64_t> sizes) const {
  scatter_sum(values, sizes);
}
void MpiCommunicator::reduce_scatter_sum(std::span<std::int64_t> values, std::span<const std::int64_t> sizes) const {
  scatter_sum(values, sizes);
}
void MpiCommunicator::allgather_slices(std::span<float> values, std::span<const std::int64_t> sizes) const {
  gather_slices(values, sizes);
}
void MpiCommunicator::allgather_slices(std::span<double> values, std::span<const std::int64_t> sizes) const {
  gather_slices(values, sizes);
}

void MpiCommunicator::broadcast(std::span<std::byte> bytes, int root) const {
  const SerialCall call("MPI_Bcast", monitor_);
  for_each_piece(bytes, max_count_, [&](std::span<std::byte> piece, int count) {
    check_mpi(MPI_Bcast(piece.data(), count, MPI_BYTE, root, comm_.get()), "MPI_Bcast", rank_);
  });
}

std::vector<std::int64_t> MpiCommunicator::gather_sizes(std::size_t size) const {
  const auto mine = static_cast<std::int64_t>(size);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&mine, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, comm_.get()), "MPI_Allgather", rank_);
  return sizes;
}

std::vector<std::vector<std::byte>> MpiCommunicator::allgather(std::span<const std::byte> bytes) const {
  const SerialCall call("MPI_Allgatherv", monitor_);
  const std::vector<std::int64_t> sizes = gather_sizes(bytes.size());
  const auto ranks = sizes.size();
  const std::int64_t longest = std::ranges::max(sizes);
  // Each round takes so much of every rank that the whole round can be counted in int.
  const std::int64_t share = std::max<std::int64_t>(1, max_count_ / size_);

  std::vector<std::vector<std::byte>> gathered(ranks);
  for (std::size_t r = 0; r < ranks; ++r) gathered[r].reserve(static_cast<std::size_t>(sizes[r]));
  std::vector<int> counts(ranks);
  std::vector<int> offsets(ranks);
  std::vector<std::byte> round;
  for (std::int64_t begin = 0; begin < longest; begin += share) {
    int total = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      counts[r] = static_cast<int>(std::clamp<std::int64_t>(sizes[r] - begin, 0, share));
      offsets[r] = total;
      total += counts[r];
    }
    round.resize(static_cast<std::size_t>(total));
    const int mine = counts[static_cast<std::size_t>(rank_)];
    const std::byte* const source = mine > 0 ? bytes.data() + begin : nullptr;
    check_mpi(
        MPI_Allgatherv(source, mine, MPI_BYTE, round.data(), counts.data(), offsets.data(), MPI_BYTE, comm_.get()),
        "MPI_Allgatherv", rank_);
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto first = round.begin() + offsets[r];
      gathered[r].insert(gathered[r].end(), first, first + counts[r]);
    }
  }
  return gathered;
}

void MpiCommunicator::barrier() const {
  const SerialCall call("MPI_Barrier", monitor_);
  check_mpi(MPI_Barrier(comm_.get()), "MPI_Barrier", rank_);
}

}  // namespace ripieno

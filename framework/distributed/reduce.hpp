#pragma once

#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/distributed/context.hpp>

namespace ripieno {
namespace distributed {

/// Collective. The sum over ranks of a clipped gradient sum: Extent::local becomes Extent::global and max_norm stays,
/// because an example belongs to one rank only and so adds to one summand only.
///
/// Leaves are float32 or float64, all alike, on any device; the sum is formed in that dtype. Two collectives whatever
/// the number of leaves: a small one of fixed size which checks that all ranks mean the same sum, then one flat sum.
/// One rank alone communicates nothing and shares the tensors of the argument; otherwise the result's are new.
///
/// Throws UsageError, on every rank, when structure, shapes, dtypes or max_norm differ between ranks, when the argument
/// is a global sum already, and for other dtypes.
[[nodiscard]] Clipped<PyTree> sum_gradients(const Clipped<PyTree>& gradients, const Communicator& communicator);
[[nodiscard]] Clipped<PyTree> sum_gradients(const Clipped<PyTree>& gradients);

/// The same, with the sum written into the tensors of the argument, which the result shares. Spares a copy.
[[nodiscard]] Clipped<PyTree> sum_gradients_(const Clipped<PyTree>& gradients, const Communicator& communicator);
[[nodiscard]] Clipped<PyTree> sum_gradients_(const Clipped<PyTree>& gradients);

/// Collective. The sum over ranks of gradient sums that each rank has noised with a key of its own. Variances add, so
/// noise_stddev becomes the root of the sum of squares, sigma sqrt(W) for equal ones; it is unknown where one rank's
/// is. key_fingerprint is the exclusive or of the ranks'. One more small collective than for Clipped.
///
/// Throws PrivacyError, on every rank, when two ranks have noised with the same key: their noise would add up
/// coherently and could not be told from that of another sum. UsageError as above.
[[nodiscard]] Noised<PyTree> sum_gradients(const Noised<PyTree>& gradients, const Communicator& communicator);
[[nodiscard]] Noised<PyTree> sum_gradients(const Noised<PyTree>& gradients);

}  // namespace distributed

using distributed::sum_gradients;
using distributed::sum_gradients_;

}  // namespace ripieno

#include <ripieno/framework/optim/sgd_kernel.hpp>

#include <algorithm>
#include <array>
#include <ripieno/accounting/base/vector_clones.hpp>

namespace ripieno::optim {
namespace {

// Elements that go through all stages before the next are fetched: what the stages share stays in the nearest cache.
constexpr std::size_t k_block = 2048;

// Updates of `size` elements from `begin` on, into `updates`, which also holds what leads up to them.
template <class Real>
RIPIENO_INLINE void block_updates(const SgdStep<Real>& step, const SgdElements<Real>& elements, std::size_t begin,
                                  std::size_t size, Real* updates) {
  const Real* gradient = elements.gradient + begin;
  const Real divisor = step.maximize ? -step.divisor : step.divisor;
  for (std::size_t i = 0; i < size; ++i) updates[i] = gradient[i] / divisor;

  if (elements.params != nullptr) {
    const Real* params = elements.params + begin;
    for (std::size_t i = 0; i < size; ++i) updates[i] += step.weight_decay * params[i];
  }
  if (elements.new_momentum != nullptr) {
    const Real* old_momentum = elements.old_momentum + begin;
    Real* momentum = elements.new_momentum + begin;
    if (step.first) {
      std::copy_n(updates, size, momentum);
    } else {
      for (std::size_t i = 0; i < size; ++i) {
        momentum[i] = step.momentum * old_momentum[i] + step.gradient_share * updates[i];
      }
    }
    if (step.nesterov) {
      for (std::size_t i = 0; i < size; ++i) updates[i] += step.momentum * momentum[i];
    } else {
      std::copy_n(momentum, size, updates);
    }
  }
  for (std::size_t i = 0; i < size; ++i) updates[i] *= -step.learning_rate;
}

template <class Real>
RIPIENO_INLINE void range_updates(const SgdStep<Real>& step, const SgdElements<Real>& elements, std::size_t begin,
                                  std::size_t end) {
  std::array<Real, k_block> scratch;
  for (; begin < end; begin += k_block) {
    const std::size_t size = std::min(k_block, end - begin);
    Real* updates = elements.updates == nullptr ? scratch.data() : elements.updates + begin;
    block_updates(step, elements, begin, size, updates);
    if (elements.updated_params == nullptr) continue;
    Real* params = elements.updated_params + begin;
    for (std::size_t i = 0; i < size; ++i) params[i] += updates[i];
  }
}

}  // namespace

RIPIENO_VECTOR_CLONES
void sgd_updates(const SgdStep<float>& step, const SgdElements<float>& elements, std::size_t begin, std::size_t end) {
  range_updates(step, elements, begin, end);
}

RIPIENO_VECTOR_CLONES
void sgd_updates(const SgdStep<double>& step, const SgdElements<double>& elements, std::size_t begin, std::size_t end) {
  range_updates(step, elements, begin, end);
}

}  // namespace ripieno::optim

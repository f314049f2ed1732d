#include <ripieno/framework/optim/element_kernels.hpp>

#include <algorithm>
#include <ripieno/accounting/base/vector_clones.hpp>
#include <ripieno/framework/optim/element_arithmetic.hpp>

namespace ripieno::optim {
namespace element_arithmetic {

// What the stages share stays in the nearest cache, and so few that the arrays are fetched side by side.
constexpr std::size_t k_block = 256;

// std::visit would call what is compiled for the least of all processors.
template <class Real>
RIPIENO_INLINE void run(const ElementRule& rule, const Block<Real>& block) {
  if (const auto* sgd = std::get_if<SgdRule>(&rule)) return run(*sgd, block);
  if (const auto* adam = std::get_if<AdamRule>(&rule)) return run(*adam, block);
  if (const auto* rms = std::get_if<RmsRule>(&rule)) return run(*rms, block);
  if (const auto* adadelta = std::get_if<AdadeltaRule>(&rule)) return run(*adadelta, block);
  run(std::get<LionRule>(rule), block);
}

/// In eight sums, so that vectors can be used, which are then added up one after another.
template <class Real>
RIPIENO_INLINE double sum_of_squares(const Real* values, std::size_t size) {
  std::array<double, 8> sums{};
  for (std::size_t i = 0; i < size; ++i) sums[i % 8] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

template <class Real>
RIPIENO_INLINE double direct_range(const ElementRule& rule, const Shaping& shaping, const Elements<Real>& elements,
                                   std::size_t begin, std::size_t end) {
  double sum = 0;
  for (; begin < end; begin += k_block) {
    const std::size_t size = std::min(k_block, end - begin);
    direct_block(rule, shaping, elements, begin, size, elements.updates + begin);
    sum += sum_of_squares(elements.updates + begin, size);
  }
  return sum;
}

}  // namespace element_arithmetic

using namespace element_arithmetic;

RIPIENO_VECTOR_CLONES
void step_elements(const ElementRule& rule, const Shaping& shaping, const Elements<float>& elements, std::size_t begin,
                   std::size_t end) {
  step_range<k_block>(rule, shaping, elements, begin, end);
}
RIPIENO_VECTOR_CLONES
void step_elements(const ElementRule& rule, const Shaping& shaping, const Elements<double>& elements, std::size_t begin,
                   std::size_t end) {
  step_range<k_block>(rule, shaping, elements, begin, end);
}

RIPIENO_VECTOR_CLONES
double direct_elements(const ElementRule& rule, const Shaping& shaping, const Elements<float>& elements,
                       std::size_t begin, std::size_t end) {
  return direct_range(rule, shaping, elements, begin, end);
}
RIPIENO_VECTOR_CLONES
double direct_elements(const ElementRule& rule, const Shaping& shaping, const Elements<double>& elements,
                       std::size_t begin, std::size_t end) {
  return direct_range(rule, shaping, elements, begin, end);
}

RIPIENO_VECTOR_CLONES
void finish_elements(const Shaping& shaping, const Elements<float>& elements, bool in_place, std::size_t begin,
                     std::size_t end) {
  finish_block(shaping, elements, in_place, begin, end - begin, elements.updates + begin);
}
RIPIENO_VECTOR_CLONES
void finish_elements(const Shaping& shaping, const Elements<double>& elements, bool in_place, std::size_t begin,
                     std::size_t end) {
  finish_block(shaping, elements, in_place, begin, end - begin, elements.updates + begin);
}

RIPIENO_VECTOR_CLONES
void average_elements(float* average, const float* params, const float* updates, double weight, std::size_t begin,
                      std::size_t end) {
  average_range(average, params, updates, weight, begin, end);
}
RIPIENO_VECTOR_CLONES
void average_elements(double* average, const double* params, const double* updates, double weight, std::size_t begin,
                      std::size_t end) {
  average_range(average, params, updates, weight, begin, end);
}

RIPIENO_VECTOR_CLONES
void interpolate_elements(const float* z, const float* x, float* params, float* updates, double weight,
                          std::size_t begin, std::size_t end) {
  interpolate_range(z, x, params, updates, weight, begin, end);
}
RIPIENO_VECTOR_CLONES
void interpolate_elements(const double* z, const double* x, double* params, double* updates, double weight,
                          std::size_t begin, std::size_t end) {
  interpolate_range(z, x, params, updates, weight, begin, end);
}

}  // namespace ripieno::optim

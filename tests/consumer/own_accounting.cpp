// Epsilon of a composition, without any training.
#include <cstdio>
#include <ripieno/accounting/engine/process.hpp>

int main() {
  using namespace ripieno::accounting;
  const Process run = poisson(gaussian(1.1), 0.01) * 1000;
  const Interval epsilon = run.epsilon_at(1e-5);
  std::printf("epsilon %.6f .. %.6f\n", epsilon.lower, epsilon.upper);
  return epsilon.lower > 1.51 && epsilon.upper < 1.52 ? 0 : 1;
}

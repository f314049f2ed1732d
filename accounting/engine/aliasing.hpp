#pragma once

#include <ripieno/accounting/engine/moments.hpp>

namespace ripieno::accounting {

/// A tilt and a period for an inversion that sees the loss modulo `length`: in place of delta(epsilon) it finds
/// sum_k e^{c k length} delta(epsilon + k length), over all integers k.
struct Period {
  double c = 0;       ///< tilt
  double length = 0;  ///< of the loss
  double order = 0;   ///< c2 > c whose moment bound tells that the images on the right are small
};

/// The shortest period whose images are about e^log_goal. Where the tail is heavy the tilt moves to the left of the
/// saddle, since the right-hand images then allow a shorter period; the sum becomes larger than its result, by at most
/// e^log_bearable_loss. `e^log_largest` bounds delta at every epsilon. A heuristic: `left_images` and `right_images`
/// say what they really are.
[[nodiscard]] Period best_period(const Saddle& saddle, CumulantEstimate& rough, double log_goal,
                                 double log_bearable_loss, double log_largest = 0);

/// The same for an inversion that knows the loss to be at least `least_loss` and may leave out losses of a total
/// probability of e^log_goal: then images on the left can be told from the rest.
[[nodiscard]] Period best_grid_period(const Saddle& saddle, RoughCumulant& rough, double log_goal,
                                      double log_bearable_loss, double least_loss);

/// Upper bounds on the sums over k < 0 and over k > 0, the latter for a loss with E e^{order L} <= e^cumulant. On the
/// left delta <= 1, on the right the moment bound holds; both are geometric series.
[[nodiscard]] double left_images(const Period& period);
[[nodiscard]] double right_images(const Period& period, double cumulant, double epsilon);

}  // namespace ripieno::accounting

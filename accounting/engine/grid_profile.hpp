#pragma once

#include <ripieno/accounting/engine/aliasing.hpp>
#include <ripieno/accounting/engine/fft.hpp>
#include <ripieno/accounting/engine/grid_law.hpp>
#include <ripieno/accounting/engine/moments.hpp>
#include <span>
#include <vector>

namespace ripieno::accounting {

/// `steps` steps of one mechanism, on a grid.
struct GridPart {
  GridLaw law;
  double steps = 1;
};

/// The privacy profile of a composed loss in one direction, from laws on a grid that enclose it (GridLaw), composed by
/// fast Fourier transform. The second engine, for few steps at a tiny rate or with little noise, where the contour
/// needs very many frequencies.
///
/// The laws are tilted by e^{cL} and normalised first, so that rounding is relative to E e^{cL} and not to 1
/// (docs/accounting.md).
class GridProfile {
 public:
  static constexpr double k_max_steps = 1e6;

  /// `size`: points of the transform, a power of two; the spacing is period.length / size. Answers hold for epsilon >=
  /// lowest_epsilon >= 0 and are narrow for about half a period more. No Gaussian part, at most k_max_steps steps.
  GridProfile(const ComposedLoss& loss, const Period& period, double lowest_epsilon, std::size_t size);

  /// Of laws that were made with this spacing. `certain`: chance of an infinite loss; `lost_mass`: what else the laws
  /// leave out at their upper ends.
  GridProfile(std::span<const GridPart> parts, double lost_mass, double certain, const Period& period,
              double lowest_epsilon, std::size_t size);

  /// delta(epsilon), certified. [0, 1] where the grid does not resolve the loss.
  [[nodiscard]] Interval delta(double epsilon) const;
  /// The inverse, certified, by bisection for each end.
  [[nodiscard]] Interval epsilon(double delta) const;

 private:
  // One of the two composed laws, over the window of losses [first, first + points * spacing).
  struct Side {
    double log_scale = 0;         // ln E e^{cL}
    double log_order_moment = 0;  // ln E e^{order L}
    double lowest = 0;            // the least losses of all steps, summed
    double first = 0;
    std::size_t points = 0;
    bool told_apart = false;  // the window has no images from the left
    // Sums over all points from k on of tilted mass times e^{-c (L - L_k)}, and times e^{-(c+1) (L - L_k)}.
    std::vector<double> mass, discounted;
  };
  using Spectrum = std::vector<Complex>;  // of frequencies 0 .. size / 2

  // Multiplies the transforms of the laws so far.
  struct Transforms {
    explicit Transforms(std::size_t size);
    Fft fft;
    Spectrum upper, lower;
    double parts = 0;
  };

  [[nodiscard]] bool is_resolvable() const { return spacing_ > 0 && spacing_ < 1 && steps_ <= k_max_steps; }
  void add_part(const GridLaw& law, double steps, Transforms& transforms);
  void invert(Transforms& transforms);
  void tilt(const GridLaw::Masses& law, double steps, Side& side, std::vector<double>& tilted);
  void open_window(Side& side, const std::vector<double>& tilted) const;
  struct Sum {
    double value, error;
  };
  [[nodiscard]] Sum delta_in_window(const Side& side, double epsilon) const;
  [[nodiscard]] double place_rounding(const Side& side, double epsilon) const;
  [[nodiscard]] double upper_delta(double epsilon) const;
  [[nodiscard]] double lower_delta(double epsilon) const;

  Period period_;
  double lowest_epsilon_;
  std::size_t size_;
  double spacing_;
  double lost_mass_;
  double certain_ = 0;
  double steps_;
  bool resolved_ = true;
  double relative_rounding_ = 0;   // of each term of the sums
  double transform_rounding_ = 0;  // of the tilted masses, in the Euclidean norm
  Side upper_, lower_;
};

}  // namespace ripieno::accounting

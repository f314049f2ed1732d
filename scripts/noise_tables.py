#!/usr/bin/env python3
"""Write framework/random/normal_tables.hpp: the tables and polynomials of the normal deviates.

    scripts/noise_tables.py                prints the header
    scripts/noise_tables.py --check FILE   exit status 1 when FILE differs from it

Needs mpmath. The numbers are part of the noise stream: a changed digit changes every deviate. Fits are weighted least
squares on Chebyshev points at 60 digits, which for these functions is within a fraction of a bit of the best fit.
"""

import argparse
import pathlib
import sys

from mpmath import cos, log, log1p, matrix, mp, mpf, nint, pi, qr_solve, sin

mp.dps = 60

SEGMENTS = 16  # of [1, 2) for the logarithm, of [0, pi) for the angle
FIT_POINTS = 80
CHECK_POINTS = 801


def chebyshev_points(low, high, count):
    middle, half_width = (low + high) / 2, (high - low) / 2
    return [middle + half_width * cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def fit(function, exponents, weight, low, high):
    """Coefficients c_j, as doubles, of sum c_j x^exponents[j] ~ function, the error weighted by weight(x)."""
    points = chebyshev_points(low, high, FIT_POINTS)
    design = matrix(len(points), len(exponents))
    target = matrix(len(points), 1)
    for row, x in enumerate(points):
        for column, exponent in enumerate(exponents):
            design[row, column] = weight(x) * x**exponent
        target[row] = weight(x) * function(x)
    solution, _ = qr_solve(design, target)
    return [mpf(float(solution[j])) for j in range(len(exponents))]


def largest_error_log2(approximation, function, low, high):
    errors = (abs(approximation(x) - function(x)) for x in chebyshev_points(low, high, CHECK_POINTS))
    return float(log(max(errors), 2))


def inverse_centres():
    """1/c of every segment, a multiple of 2^-10 near the inverse of its centre. The last is exactly 1/2, so that
    2 ln(1/c) cancels the exponent's -2 ln 2 exactly and -2 ln(u / 2^64) loses no digits as u nears 2^64."""
    inverses = []
    for i in range(SEGMENTS - 1):
        centre = 1 + (mpf(i) + mpf(1) / 2) / SEGMENTS
        inverses.append(nint(1024 / centre) / 1024)
    return inverses + [mpf(1) / 2]


def logarithm(inverses):
    """p with -2 ln(1 + r) ~ r p(r) over the range that r = z / c - 1 takes, and its error."""
    edges = [(1 + mpf(i) / SEGMENTS, 1 + mpf(i + 1) / SEGMENTS) for i in range(SEGMENTS)]
    low = min(edge[0] * inverse - 1 for edge, inverse in zip(edges, inverses))
    high = max(edge[1] * inverse - 1 for edge, inverse in zip(edges, inverses))
    coefficients = fit(lambda r: -2 * log1p(r) / r, range(8), lambda r: r, low, high)

    def approximation(r):
        return sum(c * r ** (j + 1) for j, c in enumerate(coefficients))

    return coefficients, largest_error_log2(approximation, lambda r: -2 * log1p(r), low, high)


def sine_and_cosine():
    """s with sin(f w) ~ f s(f^2), c with cos(f w) - 1 ~ f^2 c(f^2), w = pi/16, -1/2 <= f <= 1/2, and their errors."""
    half, width = mpf(1) / 2, pi / SEGMENTS
    powers = [0, 2, 4, 6]
    sine = fit(lambda f: sin(width * f) / f, powers, lambda f: f, -half, half)
    cosine = fit(lambda f: (cos(width * f) - 1) / f**2, powers, lambda f: f * f, -half, half)
    sine_error = largest_error_log2(
        lambda f: sum(c * f ** (p + 1) for c, p in zip(sine, powers)), lambda f: sin(width * f), -half, half)
    cosine_error = largest_error_log2(
        lambda f: 1 + sum(c * f ** (p + 2) for c, p in zip(cosine, powers)), lambda f: cos(width * f), -half, half)
    return sine, sine_error, cosine, cosine_error


def hexadecimal(values, per_line=4, indent=5):
    texts = [float(value).hex() for value in values]
    lines = [", ".join(texts[i:i + per_line]) for i in range(0, len(texts), per_line)]
    return (",\n" + " " * indent).join(lines)


def header():
    inverses = inverse_centres()
    log_p, log_error = logarithm(inverses)
    sin_p, sin_error, cos_p, cos_error = sine_and_cosine()
    angles = [(i + mpf(1) / 2) * pi / SEGMENTS for i in range(SEGMENTS)]
    return f"""\
// Made by scripts/noise_tables.py; not to be edited. These numbers are part of the noise stream.
// clang-format off
#pragma once

namespace ripieno::random_detail {{

/// Which of the four tables of 16 doubles.
enum class Table {{ inverse, log_inverse, sine, cosine }};

struct NormalTables {{
  alignas(64) double at[4][16];
}};

struct NormalPolynomials {{
  double logarithm[8];  // -2 ln(1 + r) = r p(r)
  double sine[4];       // sin(f pi / 16) = f p(f^2)
  double cosine[4];     // cos(f pi / 16) - 1 = f^2 p(f^2)
  double minus_two_ln2;
}};

/// By segment of [1, 2): 1/c and 2 ln(1/c), c near the segment's centre. By segment of [0, pi): sine and cosine of the
/// centre.
inline constexpr NormalTables k_normal_tables = {{{{
    {{{hexadecimal(inverses)}}},
    {{{hexadecimal([2 * log(inverse) for inverse in inverses])}}},
    {{{hexadecimal([sin(angle) for angle in angles])}}},
    {{{hexadecimal([cos(angle) for angle in angles])}}},
}}}};

/// Largest absolute errors: logarithm 2^{log_error:.1f}, sine 2^{sin_error:.1f}, cosine 2^{cos_error:.1f}.
inline constexpr NormalPolynomials k_normal_polynomials = {{
    {{{hexadecimal(log_p)}}},
    {{{hexadecimal(sin_p)}}},
    {{{hexadecimal(cos_p)}}},
    {hexadecimal([-2 * log(2)])},
}};

}}  // namespace ripieno::random_detail
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", type=pathlib.Path, metavar="FILE", help="compare with FILE instead of printing")
    arguments = parser.parse_args()
    text = header()
    if arguments.check is None:
        sys.stdout.write(text)
        return 0
    if arguments.check.read_text() != text:
        print(f"{arguments.check} is not what scripts/noise_tables.py makes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

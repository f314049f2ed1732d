// Made by scripts/noise_tables.py; not to be edited. These numbers are part of the noise stream.
// clang-format off
#pragma once

namespace ripieno::random_detail {

/// Which of the four tables of 16 doubles.
enum class Table { inverse, log_inverse, sine, cosine };

struct NormalTables {
  alignas(64) double at[4][16];
};

struct NormalPolynomials {
  double logarithm[8];  // -2 ln(1 + r) = r p(r)
  double sine[4];       // sin(f pi / 16) = f p(f^2)
  double cosine[4];     // cos(f pi / 16) - 1 = f^2 p(f^2)
  double minus_two_ln2;
};

/// By segment of [1, 2): 1/c and 2 ln(1/c), c near the segment's centre. By segment of [0, pi): sine and cosine of the
/// centre.
inline constexpr NormalTables k_normal_tables = {{
    {0x1.f080000000000p-1, 0x1.d400000000000p-1, 0x1.bb00000000000p-1, 0x1.a400000000000p-1,
     0x1.8f80000000000p-1, 0x1.7d00000000000p-1, 0x1.6c00000000000p-1, 0x1.5c80000000000p-1,
     0x1.4e80000000000p-1, 0x1.4180000000000p-1, 0x1.3500000000000p-1, 0x1.2a00000000000p-1,
     0x1.1f80000000000p-1, 0x1.1580000000000p-1, 0x1.0c80000000000p-1, 0x1.0000000000000p-1},
    {-0x1.f7a9b16782856p-5, -0x1.700d30aeac0e1p-3, -0x1.28753bc11aba5p-2, -0x1.95a5adcf7017fp-2,
     -0x1.fc218be620a5ep-2, -0x1.2e9e2bce12286p-1, -0x1.5d5bddf595f30p-1, -0x1.89eb3af432874p-1,
     -0x1.b3e77d046d727p-1, -0x1.dc7eb3d1919ebp-1, -0x1.028d2d6a963f4p+0, -0x1.151c3f6f29612p+0,
     -0x1.2779e1ec93ecap+0, -0x1.399a157a603e7p+0, -0x1.4a7b87bf1fa82p+0, -0x1.62e42fefa39efp+0},
    {0x1.917a6bc29b42cp-4, 0x1.294062ed59f06p-2, 0x1.e2b5d3806f63bp-2, 0x1.44cf325091dd6p-1,
     0x1.8bc806b151741p-1, 0x1.c38b2f180bdb1p-1, 0x1.e9f4156c62ddap-1, 0x1.fd88da3d12526p-1,
     0x1.fd88da3d12526p-1, 0x1.e9f4156c62ddap-1, 0x1.c38b2f180bdb1p-1, 0x1.8bc806b151741p-1,
     0x1.44cf325091dd6p-1, 0x1.e2b5d3806f63bp-2, 0x1.294062ed59f06p-2, 0x1.917a6bc29b42cp-4},
    {0x1.fd88da3d12526p-1, 0x1.e9f4156c62ddap-1, 0x1.c38b2f180bdb1p-1, 0x1.8bc806b151741p-1,
     0x1.44cf325091dd6p-1, 0x1.e2b5d3806f63bp-2, 0x1.294062ed59f06p-2, 0x1.917a6bc29b42cp-4,
     -0x1.917a6bc29b42cp-4, -0x1.294062ed59f06p-2, -0x1.e2b5d3806f63bp-2, -0x1.44cf325091dd6p-1,
     -0x1.8bc806b151741p-1, -0x1.c38b2f180bdb1p-1, -0x1.e9f4156c62ddap-1, -0x1.fd88da3d12526p-1},
}};

/// Largest absolute errors: logarithm 2^-55.2, sine 2^-56.0, cosine 2^-60.9.
inline constexpr NormalPolynomials k_normal_polynomials = {
    {-0x1.fffffffffffe4p+0, 0x1.ffffffffffcb8p-1, -0x1.5555555617ee3p-1, 0x1.000000065556dp-1,
     -0x1.99998309ac551p-2, 0x1.5554e49d837adp-2, -0x1.250e62e330c28p-2, 0x1.01502a12f5d7ep-2},
    {0x1.921fb54442d12p-3, -0x1.4abbce62520a3p-10, 0x1.466bc55b823a5p-19, -0x1.32bb254203297p-29},
    {-0x1.3bd3cc9be45dcp-6, 0x1.03c1f081b121bp-14, -0x1.55d3c709d092cp-24, 0x1.e1d4bb08d2cc4p-35},
    -0x1.62e42fefa39efp+0,
};

}  // namespace ripieno::random_detail

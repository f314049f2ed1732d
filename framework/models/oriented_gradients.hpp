#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ripieno {

/// Public features of single-channel images: a linear classifier on them learns under noise what takes a network many
/// more steps. Histograms of oriented gradients (Dalal and Triggs, 2005) reduced to what helps here:
///   1. central differences gx, gy (half of right minus left, below minus above; zero outside the image);
///   2. eight channels max(0, gx cos a + gy sin a), a = 2 pi k / 8, and the pixels as the ninth channel;
///   3. means over 4x4 windows, two pixels apart;
///   4. each channel brought to zero mean and unit variance over its pixels within the image (epsilon 1e-5).
///
/// images: float32 [n, H, W] or [n, 1, H, W] on the CPU, H and W at least 4, of any range (made for [0, 1]).
/// Returns float32 [n, 9 * h * w], h = (H - 4) / 2 + 1 rounded down, w alike: 1521 for 28x28.
///
/// A map of each image by itself: no value crosses from one image to another, NaN and infinity included, and the bits
/// depend neither on the thread count nor on the neighbours. Throws UsageError for another dtype, device or shape.
[[nodiscard]] at::Tensor oriented_gradients(const at::Tensor& images);

/// Number of features of an image of that size. UsageError for sides below 4.
[[nodiscard]] std::int64_t oriented_gradients_size(std::int64_t height, std::int64_t width);

}  // namespace ripieno

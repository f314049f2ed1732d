#pragma once

#include <cstddef>
#include <cstdint>

namespace ripieno {

namespace cuda {
struct Stream;
}

/// Adds word_hash(words[i], position + i) for i in [0, size) to `*sum`, modulo 2^64, by the CUDA device that is current
/// and in whose memory both lie; queued on `stream`. CommError where the device fails; a UsageError in a build without
/// CUDA.
void add_word_hashes_on_device(const std::uint32_t* words, std::size_t size, std::uint64_t position, std::uint64_t* sum,
                               cuda::Stream* stream);

}  // namespace ripieno

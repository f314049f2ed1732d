#pragma once

#include <ripieno/framework/training/inputs.hpp>

namespace ripieno {

/// PrivacyError when the loss of a sequence depends on how far it is padded, as a few synthetic ones show. Sequences
/// are padded to the longest that is computed with them: such a loss would let the length of one person's record change
/// what others contribute, which no clipping norm bounds. For data of sequences, computed on `device`.
void check_padding(const RunInputs& inputs, at::Device device);

}  // namespace ripieno

#pragma once

#include <cstdint>
#include <ripieno/framework/models/objective.hpp>
#include <string>

namespace ripieno {

/// The objective of that name for sequences that are padded with the token `padding`: next-token leaves out the places
/// whose next token is that one, because how far a sequence is padded depends on the others of a draw and must not
/// change its loss. All others are those of make_objective.
[[nodiscard]] Objective make_sequence_objective(const std::string& name, std::int64_t padding);

}  // namespace ripieno

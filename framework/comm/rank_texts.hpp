#pragma once

#include <ripieno/framework/comm/communicator.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno {

/// Collective. Whether every rank gives the same text, by 128 bits of SHA-256; one small message.
[[nodiscard]] bool same_everywhere(const Communicator& communicator, std::string_view text);

/// Collective. Every rank's text, in rank order.
[[nodiscard]] std::vector<std::string> gather_texts(const Communicator& communicator, std::string_view mine);

/// "A on ranks 0, 2; B on rank 1" for texts in rank order.
[[nodiscard]] std::string who_says_what(std::span<const std::string> texts);

}  // namespace ripieno

#include <array>
#include <cstring>
#include <map>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>

namespace ripieno {

bool same_everywhere(const Communicator& communicator, std::string_view text) {
  if (communicator.size() == 1) return true;
  const auto digest = sha256(text);
  std::array<std::int64_t, 2> head{};
  std::memcpy(head.data(), digest.data(), sizeof head);
  // max(v) and max(~v) = ~min(v) in one message.
  std::array<std::int64_t, 4> extremes{head[0], head[1], ~head[0], ~head[1]};
  communicator.allreduce_max(std::span<std::int64_t>(extremes));
  return extremes[0] == ~extremes[2] && extremes[1] == ~extremes[3];
}

std::vector<std::string> gather_texts(const Communicator& communicator, std::string_view mine) {
  std::vector<std::string> texts;
  for (const auto& bytes : communicator.allgather(std::as_bytes(std::span(mine)))) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

std::string who_says_what(std::span<const std::string> texts) {
  std::map<std::string, std::vector<std::string>> ranks;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) ranks[texts[rank]].push_back(std::to_string(rank));
  std::vector<std::string> parts;
  for (const auto& [text, who] : ranks) {
    parts.push_back(text + (who.size() == 1 ? " on rank " : " on ranks ") + join(who));
  }
  return join(parts, "; ");
}

}  // namespace ripieno

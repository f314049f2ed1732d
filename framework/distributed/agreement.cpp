#include <xxhash.h>

#include <array>
#include <bit>
#include <exception>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <ripieno/framework/distributed/agreement.hpp>
#include <ripieno/framework/distributed/context.hpp>

namespace ripieno::distributed {

bool same_everywhere(const Communicator& communicator, std::string_view text) {
  if (communicator.size() == 1) return true;
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  const auto low = std::bit_cast<std::int64_t>(hash.low64);
  const auto high = std::bit_cast<std::int64_t>(hash.high64);
  // max(v) and max(~v) = ~min(v) in one message.
  std::array<std::int64_t, 4> extremes{low, high, ~low, ~high};
  communicator.allreduce_max(std::span<std::int64_t>(extremes));
  return extremes[0] == ~extremes[2] && extremes[1] == ~extremes[3];
}

void agree(const Communicator& communicator, std::string_view what, std::string_view remedy,
           const std::function<std::string()>& describe) {
  std::string mine;
  std::exception_ptr failure;
  try {
    mine = describe();
  } catch (const std::exception& e) {
    mine = e.what();
    failure = std::current_exception();
  }
  if (!same_everywhere(communicator, mine)) {
    throw UsageError(std::string(what), who_says_what(gather_texts(communicator, mine)), std::string(remedy));
  }
  if (failure) std::rethrow_exception(failure);
}

void require_runtime(std::string_view function) {
  if (current_runtime() != nullptr) return;
  throw CommError(std::string(function) + " without a Runtime", "there are no ranks to talk to",
                  "make a Runtime first, or pass a communicator");
}

}  // namespace ripieno::distributed

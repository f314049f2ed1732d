#include <exception>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <ripieno/framework/distributed/agreement.hpp>
#include <ripieno/framework/distributed/context.hpp>

namespace ripieno::distributed {

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

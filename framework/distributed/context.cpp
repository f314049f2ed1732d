#include <atomic>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/distributed/context.hpp>

namespace ripieno {
namespace {

std::atomic<Runtime*> runtime_of_this_process{nullptr};

}  // namespace

Runtime* current_runtime() noexcept { return runtime_of_this_process; }
void set_current_runtime(Runtime* runtime) noexcept { runtime_of_this_process = runtime; }

const Communicator& current_communicator() {
  static const auto alone = make_null_communicator();
  const Runtime* const runtime = current_runtime();
  return runtime != nullptr ? runtime->communicator() : *alone;
}

}  // namespace ripieno

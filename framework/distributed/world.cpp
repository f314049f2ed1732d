#include <ripieno/framework/distributed/context.hpp>
#include <ripieno/framework/distributed/world.hpp>

namespace ripieno::distributed {

bool is_distributed() { return get_world_size() > 1; }
int get_rank() { return current_communicator().rank(); }
int get_world_size() { return current_communicator().size(); }
void barrier() { current_communicator().barrier(); }

}  // namespace ripieno::distributed

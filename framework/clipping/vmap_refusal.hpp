#pragma once

#include <c10/util/Exception.h>

namespace ripieno {

/// Throws the UsageError that explains why functorch could not transform a loss, and what can be done: `error` as
/// vmap_grad threw it, on made-up examples, since its text may be shown.
[[noreturn]] void refuse_vmap(const c10::Error& error);

}  // namespace ripieno

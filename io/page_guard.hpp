#pragma once

#include <memory>
#include <type_traits>

namespace ripieno::io {

/// Makes SIGBUS (a mapped file was cut, or its disk failed) an answer instead of the end of the process, inside
/// `read_guarded` only; elsewhere the signal takes the course it would have taken. Called once by who maps files.
void install_page_guard();

/// Runs `body(context)`. False when a mapped page could not be read: `body` was left in the middle, without unwinding,
/// so it must own nothing (no locks, no allocations).
[[nodiscard]] bool read_guarded(void (*body)(void*), void* context);

/// The same for a callable.
template <class Body>
[[nodiscard]] bool read_guarded(Body& body) {
  return read_guarded([](void* context) { (*static_cast<Body*>(context))(); },
                      static_cast<void*>(std::addressof(body)));
}

}  // namespace ripieno::io

#pragma once

#include <concepts>
#include <optional>
#include <ripieno/framework/distributed/agreement.hpp>
#include <ripieno/framework/distributed/context.hpp>
#include <ripieno/framework/distributed/reduce_pytree.hpp>
#include <ripieno/framework/distributed/scalars.hpp>
#include <ripieno/framework/distributed/tensors.hpp>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ripieno::distributed {

/// A state that knows how to become the state of all ranks: an overload `T sync_state(const T&, const Communicator&)`
/// in the namespace of T, which users write for types of their own. Collective.
template <class T>
concept Syncable = requires(const T& state, const Communicator& communicator) {
  { sync_state(state, communicator) } -> std::same_as<T>;
};

/// Collective. `sync(a)` returns what sync_state makes of a; `sync(a, b, …)` a tuple, one after the other; `sync()` the
/// empty tuple. With a communicator in front they talk over that one. Without a Runtime there is one rank.
[[nodiscard]] inline std::tuple<> sync() { return {}; }

template <Syncable T>
[[nodiscard]] T sync(const Communicator& communicator, const T& state) {
  return sync_state(state, communicator);
}
template <Syncable A, Syncable B, Syncable... Rest>
[[nodiscard]] std::tuple<A, B, Rest...> sync(const Communicator& communicator, const A& a, const B& b,
                                             const Rest&... rest) {
  return std::tuple<A, B, Rest...>{sync_state(a, communicator), sync_state(b, communicator),
                                   sync_state(rest, communicator)...};  // braces: from left to right
}
template <Syncable T>
[[nodiscard]] T sync(const T& state) {
  return sync(current_communicator(), state);
}
template <Syncable A, Syncable B, Syncable... Rest>
[[nodiscard]] std::tuple<A, B, Rest...> sync(const A& a, const B& b, const Rest&... rest) {
  return sync(current_communicator(), a, b, rest...);
}

/// What `sync_object` does with a field besides reducing it.
struct KeepLocal {};    ///< each rank keeps its own
struct AssertEqual {};  ///< all ranks must have the same; for a std::optional, also whether there is one
inline constexpr KeepLocal local;
inline constexpr AssertEqual assert_equal;

template <class S, class M, class Rule>
struct Field {
  const char* name;
  M S::*member;
  Rule rule;
};

/// How one field of a state is synchronised: by an Op (numbers, tensors, trees), by `local`, by `assert_equal` (numbers
/// and optional ones) or by a callable (const M& value, const Communicator&) -> M, or void where it only checks.
template <class S, class M, class Rule>
[[nodiscard]] Field<S, M, Rule> field(const char* name, M S::*member, Rule rule) {
  return {name, member, std::move(rule)};
}

namespace detail {

struct Anything {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): stands for a value of any type
};
template <std::size_t>
using AnythingFor = Anything;
template <class S, class Indices>
struct HasMembers;
template <class S, std::size_t... I>
struct HasMembers<S, std::index_sequence<I...>> {
  static constexpr bool value = requires { S{AnythingFor<I>{}...}; };
};
/// Whether the aggregate S has at least n members.
template <class S, std::size_t n>
constexpr bool has_members = HasMembers<S, std::make_index_sequence<n>>::value;

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

template <class M>
M reduce_field(const M& value, Op op, const Communicator& communicator) {
  if constexpr (std::same_as<M, at::Tensor>) {
    return all_reduce(value, op, communicator);
  } else if constexpr (std::same_as<M, PyTree>) {
    return reduce_pytree(value, op, communicator);
  } else if constexpr (std::same_as<M, double>) {
    return reduce_scalar(value, op, {.compute_dtype = at::kDouble}, communicator);
  } else {
    return static_cast<M>(reduce_scalar(value, op, communicator));
  }
}

template <class M>
void assert_field_equal(const M& value, const char* name, const Communicator& communicator) {
  if constexpr (is_optional<M>) {
    assert_scalar_equal(value ? 1 : 0, std::string("presence of ") + name, communicator);
    if (value) assert_scalar_equal(*value, name, communicator);
  } else {
    assert_scalar_equal(value, name, communicator);
  }
}

template <class S, class M, class Rule>
void sync_field(S& state, const Field<S, M, Rule>& field, const Communicator& communicator) {
  M& value = state.*field.member;
  if constexpr (std::same_as<Rule, Op>) {
    value = reduce_field(value, field.rule, communicator);
  } else if constexpr (std::same_as<Rule, AssertEqual>) {
    assert_field_equal(value, field.name, communicator);
  } else if constexpr (!std::same_as<Rule, KeepLocal>) {
    if constexpr (std::is_void_v<std::invoke_result_t<const Rule&, const M&, const Communicator&>>) {
      field.rule(std::as_const(value), communicator);
    } else {
      value = field.rule(std::as_const(value), communicator);
    }
  }
}

template <class S, class M, class Rule>
std::string describe(const Field<S, M, Rule>& field) {
  if constexpr (std::same_as<Rule, Op>) return std::string(field.name) + " by " + name(field.rule);
  if constexpr (std::same_as<Rule, KeepLocal>) return std::string(field.name) + " kept";
  return std::string(field.name) + " by a rule of its own";
}

}  // namespace detail

/// Collective. The state whose fields have been synchronised one by one, in the order given, which is compared between
/// ranks before anything is sent:
/// ```
/// next = sync_object(state, communicator, field("loss", &S::loss, Op::sum), field("n", &S::n, assert_equal));
/// ```
/// S is an aggregate and every member is named; one that is left out does not compile. Float members are reduced in
/// float32, double ones in float64, integers exactly. Without a Runtime there is one rank.
template <class S, class... Ms, class... Rules>
[[nodiscard]] S sync_object(S state, const Communicator& communicator, const Field<S, Ms, Rules>&... fields) {
  static_assert(std::is_aggregate_v<S>, "sync_object takes aggregates");
  static_assert(!detail::has_members<S, sizeof...(fields) + 1>, "name every member, with `local` where it is kept");
  agree(communicator, "the ranks synchronise their states differently", "name the same fields on every rank", [&] {
    std::string text;
    ((text += detail::describe(fields) + ", "), ...);
    return text;
  });
  (detail::sync_field(state, fields, communicator), ...);
  return state;
}
template <class S, class... Ms, class... Rules>
[[nodiscard]] S sync_object(S state, const Field<S, Ms, Rules>&... fields) {
  return sync_object(std::move(state), current_communicator(), fields...);
}

}  // namespace ripieno::distributed

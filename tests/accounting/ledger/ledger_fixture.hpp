#pragma once

#include <ripieno/accounting/ledger/ledger.hpp>
#include <string>

namespace ripieno::ledger::testing {

inline PlanOptions plan_options() {
  return {.num_examples = 60000,
          .dataset_id = "7d9f5d3e-8f0f-4a41-9d53-1c1b7f7f1e11",
          .expected_batch = 600,
          .steps = 1000,
          .noise_multiplier = 1,
          .clipping_norm = 1,
          .delta = 1e-5};
}

/// Writes ledger text line by line, with right hashes unless told otherwise.
class Builder {
 public:
  explicit Builder(const PlanOptions& options = plan_options()) {
    append(header_text({options.dataset_id, options.num_examples}));
  }

  Builder& segment(const PlanOptions& options = plan_options(), std::int64_t first_step = 0, char nonce = 'a',
                   char pattern = 'd') {
    const PrivacyPlan plan(options);
    const SegmentHeader header{.index = ++segments_,
                               .plan = plan,
                               .nonce_hash = std::string(32, nonce),
                               .first_step = first_step,
                               .pattern = plan.has_pattern() ? std::string(32, pattern) : std::string(),
                               .torn_bytes = static_cast<std::int64_t>(torn_.size()),
                               .build = this_build()};
    append(segment_text(header));
    return *this;
  }

  Builder& steps(std::int64_t begin, std::int64_t end) {
    for (std::int64_t step = begin; step < end; ++step) append(step_text({segments_, step}));
    return *this;
  }

  /// Remains of a line that was not written whole; the next line's hash covers them.
  Builder& torn(const std::string& bytes) {
    text += bytes;
    torn_ += bytes;
    return *this;
  }

  Builder& append(const std::string& content) {
    head_ = chain_hash(head_, torn_ + content);
    text += seal_line(content, head_);
    torn_.clear();
    return *this;
  }

  std::string text;

 private:
  ChainHash head_{};
  std::int64_t segments_ = 0;
  std::string torn_;
};

}  // namespace ripieno::ledger::testing

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ripieno/io/example_source.hpp>

namespace ripieno::io {

/// What one example of a text is.
enum class TextUnit {
  line,    ///< each line that is not empty: a sequence
  file,    ///< each file that is not empty: a sequence
  window,  ///< `length` bytes and, as its label, the `length` bytes from one further on: next-token prediction
};

struct TextImport {
  std::filesystem::path root;  ///< a file, or a folder of files
  TextUnit unit = TextUnit::line;
  std::int64_t length = 0;     ///< of windows; lines and files keep no more than so many bytes, 0: all
  bool class_folders = false;  ///< ROOT/CLASS/…/FILE: the folder is the label of its lines or files
};

/// Reads text as the tokens of a byte-level tokenizer: token b is byte b, 256 is padding (vocab_size 257). The rest of
/// a file that fills no window is dropped. The files are read twice: once to count the examples.
[[nodiscard]] std::unique_ptr<ExampleSource> open_text(const TextImport& import);

}  // namespace ripieno::io

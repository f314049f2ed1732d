#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/io/child_process.hpp>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <ripieno/io/isolated_inspection.hpp>
#include <system_error>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

// Of one file's metadata, which take a millisecond. Processor time: a file system that is slow does not count.
constexpr int k_cpu_limit_s = 3;
// Without a word from a child that uses no processor time: its file system stalls, or the fork caught another thread
// inside an allocator that does not expect forks (glibc's does), and it waits for that thread for ever.
constexpr int k_patience_ms = 10000;

// ---- a ShardInfo on its way through the pipe

Json encode(const StoredArray& array) {
  return {array.name, static_cast<int>(array.dtype), array.shape, array.offset, array.bytes, array.sha256};
}

StoredArray decode_array(const Json& json) {
  return {.name = json.at(0).get<std::string>(),
          .dtype = static_cast<DType>(json.at(1).get<int>()),
          .shape = json.at(2).get<std::vector<std::int64_t>>(),
          .offset = json.at(3).get<std::uint64_t>(),
          .bytes = json.at(4).get<std::uint64_t>(),
          .sha256 = json.at(5).get<std::string>()};
}

// One function for both directions, so that they cannot disagree: `field` is called with every member in turn.
template <class Info, class Field>
void for_each_text(Info& info, Field field) {
  for (auto* text : {&info.dataset_name, &info.dataset_id, &info.split, &info.shard_uuid, &info.content_sha256,
                     &info.provenance, &info.created, &info.import_source, &info.tokenizer, &info.tokenizer_sha256}) {
    field(*text);
  }
}

template <class Info, class Field>
void for_each_number(Info& info, Field field) {
  for (auto* number :
       {&info.shard_index, &info.shard_count, &info.num_examples, &info.example_offset, &info.num_classes,
        &info.vocab_size, &info.pad_id, &info.identity.bytes, &info.identity.modified_s, &info.identity.modified_ns}) {
    field(*number);
  }
}

template <class Info, class Field>
void for_each_array(Info& info, Field field) {
  for (auto* array : {&info.x, &info.y, &info.sequence_values, &info.sequence_offsets, &info.crc32c, &info.id}) {
    field(*array);
  }
}

Json encode(const ShardInfo& info) {
  Json texts = Json::array();
  Json numbers = Json::array();
  Json arrays = Json::array();
  for_each_text(info, [&](const std::string& text) { texts.push_back(text); });
  for_each_number(info, [&](std::int64_t number) { numbers.push_back(number); });
  for_each_array(info,
                 [&](const std::optional<StoredArray>& array) { arrays.push_back(array ? encode(*array) : Json()); });
  const Normalisation& norm = info.normalisation;
  return {{"texts", texts},
          {"numbers", numbers},
          {"arrays", arrays},
          {"file", {info.identity.device, info.identity.inode}},
          {"unit", static_cast<int>(info.privacy_unit)},
          {"norm", {norm.scale, norm.mean, norm.std}},
          {"classes", info.class_names},
          {"ignore", info.ignore_index ? Json(*info.ignore_index) : Json()}};
}

ShardInfo decode(const Json& json, const fs::path& path) {
  ShardInfo info;
  info.path = path;
  std::size_t at = 0;
  for_each_text(info, [&](std::string& text) { text = json.at("texts").at(at++).get<std::string>(); });
  at = 0;
  for_each_number(info, [&](std::int64_t& number) { number = json.at("numbers").at(at++).get<std::int64_t>(); });
  at = 0;
  for_each_array(info, [&](std::optional<StoredArray>& array) {
    const Json& stored = json.at("arrays").at(at++);
    if (!stored.is_null()) array = decode_array(stored);
  });
  info.identity.device = json.at("file").at(0).get<dev_t>();
  info.identity.inode = json.at("file").at(1).get<ino_t>();
  info.privacy_unit = static_cast<PrivacyUnit>(json.at("unit").get<int>());
  info.normalisation = {.scale = json.at("norm").at(0).get<float>(),
                        .mean = json.at("norm").at(1).get<std::vector<float>>(),
                        .std = json.at("norm").at(2).get<std::vector<float>>()};
  info.class_names = json.at("classes").get<std::vector<std::string>>();
  if (!json.at("ignore").is_null()) info.ignore_index = json.at("ignore").get<std::int64_t>();
  return info;
}

// ---- the child

void write_all(int fd, const void* data, std::size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) ::_exit(1);
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
}

void send(int fd, const Json& message) {
  const std::vector<std::uint8_t> bytes = Json::to_cbor(message);
  const auto size = static_cast<std::uint64_t>(bytes.size());
  write_all(fd, &size, sizeof size);
  write_all(fd, bytes.data(), bytes.size());
}

[[noreturn]] void serve(std::span<const fs::path> paths, int fd) noexcept {
  confine_child();
  for (const fs::path& path : paths) {
    limit_cpu_time(k_cpu_limit_s);  // for each file anew
    try {
      send(fd, {{"shard", encode(inspect_shard(path))}});
    } catch (const DataError& error) {
      send(fd, {{"error", error.what()}});
      ::_exit(0);
    }
  }
  ::_exit(0);
}

// ---- the parent

enum class Answer { complete, ended, silent };

Answer read_all(int fd, void* data, std::size_t size) {
  char* bytes = static_cast<char*>(data);
  while (size > 0) {
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, k_patience_ms);
    if (ready == 0) return Answer::silent;
    const ssize_t got = ready < 0 ? -1 : ::read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Answer::ended;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return Answer::complete;
}

Answer receive(int fd, Json& message) {
  std::uint64_t size = 0;
  if (const Answer answer = read_all(fd, &size, sizeof size); answer != Answer::complete) return answer;
  std::vector<std::uint8_t> bytes(size);
  const Answer answer = read_all(fd, bytes.data(), bytes.size());
  if (answer == Answer::complete) message = Json::from_cbor(bytes);
  return answer;
}

class Child {
 public:
  explicit Child(std::span<const fs::path> paths) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
    pipe_ = UniqueFd(ends[0]);
    const UniqueFd write_end(ends[1]);
    // No other thread may be inside HDF5 at the fork: the child would inherit its half-done work.
    std::optional<hdf5::Session> session(std::in_place);
    pid_ = ::fork();
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ > 0) return;
    session.reset();
    serve(paths, write_end.get());
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    static_cast<void>(wait());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] int pipe() const noexcept { return pipe_.get(); }
  /// How it ended, as waitpid tells.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  UniqueFd pipe_;
  pid_t pid_ = -1;
};

[[noreturn]] void throw_died(const fs::path& path, int status) {
  const bool endless = WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
  const char* const why = endless ? "HDF5 comes to no end on it" : "HDF5 crashes on it";
  throw DataError(path.string() + ": corrupt metadata", why, "copy or import the file again");
}

}  // namespace

std::vector<ShardInfo> inspect_isolated(std::span<const fs::path> paths) {
  std::vector<ShardInfo> shards;
  Child child(paths);
  for (const fs::path& path : paths) {
    Json message;
    const Answer answer = receive(child.pipe(), message);
    if (answer == Answer::silent) break;
    if (answer == Answer::ended) throw_died(path, child.wait());
    if (message.contains("error")) throw DataError(message.at("error").get<std::string>());
    shards.push_back(decode(message.at("shard"), path));
  }
  // What a silent child has left to do is done here.
  for (const fs::path& path : paths.subspan(shards.size())) shards.push_back(inspect_shard(path));
  return shards;
}

}  // namespace ripieno::io

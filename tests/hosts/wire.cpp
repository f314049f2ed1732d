// wire: the Ethernet switch between the hosts of hosts.py, with cables that delay, lose and cut. What netem does in the
// kernel, for kernels without it; needs /dev/net/tun and the right to enter network namespaces.
//
//   wire SOCKET NAME=PID...
//
// makes the device eth0 in the network namespace of each PID, prints "ready" and carries frames until it is killed. A
// packet "NAME KEY=VALUE..." to SOCKET (unix, SOCK_SEQPACKET; NAME may be *) changes a cable and is answered with "ok"
// or with what is wrong:
//   delay_ms=D   holds each frame back by D, in either direction
//   loss=P       drops each frame with probability P
//   cut=0|1      1: nothing passes, and nobody is told
// A frame between two hosts passes both of their cables.

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::size_t k_address_size = 6;  // a frame begins with receiver, then sender
constexpr std::size_t k_header_size = 14;  // those two and the type
constexpr std::size_t k_max_frame_size = 1 << 16;
constexpr int k_frames_a_turn = 64;  // read from one port before the others have their turn

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

Descriptor open_file(const std::string& path, int flags) {
  Descriptor fd(::open(path.c_str(), flags | O_CLOEXEC));
  if (fd.get() < 0) fail("cannot open " + path);
  return fd;
}

/// The host's end of its cable: eth0 in the network namespace of process `pid`. Frames are read from and written to it
/// here, wherever that namespace is.
Descriptor make_eth0(const std::string& pid) {
  const Descriptor home = open_file("/proc/self/ns/net", O_RDONLY);
  const Descriptor there = open_file("/proc/" + pid + "/ns/net", O_RDONLY);
  if (::setns(there.get(), CLONE_NEWNET) != 0) fail("cannot enter the network namespace of process " + pid);
  Descriptor tap = open_file("/dev/net/tun", O_RDWR | O_NONBLOCK);
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strncpy(request.ifr_name, "eth0", IFNAMSIZ - 1);
  if (::ioctl(tap.get(), TUNSETIFF, &request) != 0) fail("cannot make eth0 for process " + pid);
  if (::setns(home.get(), CLONE_NEWNET) != 0) fail("cannot return to my own network namespace");
  return tap;
}

struct Cable {
  std::string host;
  Descriptor tap;
  Milliseconds delay{0};
  double loss = 0;
  bool cut = false;
};

double parse_number(const std::string& text, double most) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end || !(value >= 0 && value <= most)) {
    throw std::invalid_argument(text + " is not a number from 0 to " + std::to_string(most));
  }
  return value;
}

void set_property(Cable& cable, const std::string& key, const std::string& value) {
  if (key == "delay_ms") {
    cable.delay = Milliseconds(parse_number(value, 1e6));
  } else if (key == "loss") {
    cable.loss = parse_number(value, 1);
  } else if (key == "cut") {
    cable.cut = parse_number(value, 1) != 0;
  } else {
    throw std::invalid_argument("unknown property " + key + " (known: delay_ms, loss, cut)");
  }
}

/// Learns which address is behind which cable, as switches do, and carries frames.
class Switch {
 public:
  explicit Switch(std::vector<Cable> cables) : cables_(std::move(cables)) {}

  [[nodiscard]] const std::vector<Cable>& cables() const { return cables_; }

  /// Throws std::invalid_argument.
  void command(const std::string& text) {
    std::istringstream words(text);
    std::string host;
    words >> host;
    std::vector<Cable*> chosen;
    for (Cable& cable : cables_) {
      if (host == "*" || host == cable.host) chosen.push_back(&cable);
    }
    if (chosen.empty()) throw std::invalid_argument("no host " + host);
    for (std::string word; words >> word;) {
      const std::size_t equals = std::min(word.find('='), word.size());
      for (Cable* cable : chosen) {
        set_property(*cable, word.substr(0, equals), word.substr(std::min(equals + 1, word.size())));
      }
    }
  }

  /// Takes what a host has sent.
  void read_from(std::size_t port) {
    for (int i = 0; i < k_frames_a_turn; ++i) {
      const ssize_t size = ::read(cables_[port].tap.get(), buffer_.data(), buffer_.size());
      if (size < static_cast<ssize_t>(k_header_size)) return;
      route(port, std::string(buffer_.data(), static_cast<std::size_t>(size)));
    }
  }

  /// Delivers what has been on its way for long enough.
  void deliver() {
    for (const auto now = Clock::now(); !in_flight_.empty() && in_flight_.begin()->first <= now;) {
      const Frame frame = std::move(in_flight_.extract(in_flight_.begin()).mapped());
      const Cable& cable = cables_[frame.port];
      // A host that does not keep up, or whose eth0 is down, loses the frame.
      if (!cable.cut) [[maybe_unused]]
        const auto n = ::write(cable.tap.get(), frame.data.data(), frame.data.size());
    }
  }

  /// How long `ppoll` may sleep; null for ever.
  [[nodiscard]] const timespec* patience() {
    if (in_flight_.empty()) return nullptr;
    const auto left = std::max(in_flight_.begin()->first - Clock::now(), Clock::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    patience_ = {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(left - seconds).count()};
    return &patience_;
  }

 private:
  struct Frame {
    std::size_t port;  // where it goes
    std::string data;
  };

  void route(std::size_t from, const std::string& data) {
    ports_[data.substr(k_address_size, k_address_size)] = from;
    const bool to_many = (data[0] & 1) != 0;
    const auto known = ports_.find(data.substr(0, k_address_size));
    if (!to_many && known != ports_.end()) {
      if (known->second != from) send(from, known->second, data);
      return;
    }
    for (std::size_t port = 0; port < cables_.size(); ++port) {
      if (port != from) send(from, port, data);
    }
  }

  void send(std::size_t from, std::size_t to, const std::string& data) {
    const Cable& out = cables_[from];
    const Cable& in = cables_[to];
    if (out.cut || in.cut || lost(out) || lost(in)) return;
    const auto arrival = Clock::now() + std::chrono::duration_cast<Clock::duration>(out.delay + in.delay);
    in_flight_.emplace(arrival, Frame{to, data});
  }

  bool lost(const Cable& cable) { return cable.loss > 0 && unit_(random_) < cable.loss; }

  std::vector<Cable> cables_;
  std::map<std::string, std::size_t> ports_;  // by Ethernet address
  std::multimap<Clock::time_point, Frame> in_flight_;
  std::array<char, k_max_frame_size> buffer_{};
  timespec patience_{};
  std::mt19937 random_{1};
  std::uniform_real_distribution<> unit_;
};

Descriptor listen_at(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) throw std::invalid_argument(path + " is too long for a socket");
  std::ranges::copy(path, address.sun_path);
  Descriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (listener.get() < 0 || ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), 8) != 0) {
    fail("cannot listen at " + path);
  }
  return listener;
}

/// One command and its answer. A client that says nothing for a second is left alone.
void answer(int listener, Switch& network) {
  const Descriptor client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::array<char, 1024> text{};
  const ssize_t size = ::recv(client.get(), text.data(), text.size(), 0);
  if (size <= 0) return;
  std::string reply = "ok";
  try {
    network.command({text.data(), static_cast<std::size_t>(size)});
  } catch (const std::invalid_argument& e) {
    reply = e.what();
  }
  ::send(client.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
}

[[noreturn]] void serve(Switch& network, int listener) {
  std::vector<pollfd> watched{{.fd = listener, .events = POLLIN, .revents = 0}};
  for (const Cable& cable : network.cables())
    watched.push_back({.fd = cable.tap.get(), .events = POLLIN, .revents = 0});
  while (true) {
    if (::ppoll(watched.data(), watched.size(), network.patience(), nullptr) < 0) continue;  // a signal
    if (watched[0].revents != 0) answer(listener, network);
    for (std::size_t port = 0; port + 1 < watched.size(); ++port) {
      if (watched[port + 1].revents != 0) network.read_from(port);
    }
    network.deliver();
  }
}

Cable plug_in(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos) throw std::invalid_argument(argument + " is not NAME=PID");
  return {.host = argument.substr(0, equals), .tap = make_eth0(argument.substr(equals + 1))};
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    std::cerr << "usage: wire SOCKET NAME=PID...\n";
    return 2;
  }
  try {
    std::vector<Cable> cables;
    for (const std::string& argument : std::span(arguments).subspan(1)) cables.push_back(plug_in(argument));
    Switch network(std::move(cables));
    const Descriptor listener = listen_at(arguments[0]);
    std::cout << "ready" << std::endl;
    serve(network, listener.get());
  } catch (const std::exception& e) {
    std::cerr << "wire: error: " << e.what() << '\n';
    return 1;
  }
}

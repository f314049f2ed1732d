#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/training/state_dict_file.hpp>

namespace ripieno {
namespace {

/// A pickle, protocol 2, of the few opcodes that torch.load accepts with weights_only=True. Torch's own C++ pickler
/// marks the type of a dictionary with a helper of TorchScript, which that mode refuses.
class Pickle {
 public:
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

  Pickle& opcode(char code) {
    bytes_ += code;
    return *this;
  }
  Pickle& text(const std::string& value) {
    opcode('X').little_endian(value.size(), 4);
    bytes_ += value;
    return *this;
  }
  Pickle& integer(std::int64_t value) {
    opcode('\x8a').opcode('\x08').little_endian(static_cast<std::uint64_t>(value), 8);
    return *this;
  }
  Pickle& integers(at::IntArrayRef values) {
    opcode(k_mark);
    for (const std::int64_t value : values) integer(value);
    return opcode(k_tuple);
  }
  Pickle& global(const std::string& module, const std::string& name) {
    bytes_ += "c" + module + "\n" + name + "\n";
    return *this;
  }

  static constexpr char k_mark = '(', k_tuple = 't', k_empty_tuple = ')', k_empty_dict = '}', k_set_items = 'u',
                        k_persistent_id = 'Q', k_reduce = 'R', k_stop = '.', k_false = '\x89';

 private:
  void little_endian(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }

  std::string bytes_ = "\x80\x02";
};

/// torch._utils._rebuild_tensor_v2(storage `key`, offset 0, sizes, strides, requires_grad False, no hooks)
void add_tensor(Pickle& pickle, const std::string& key, const at::Tensor& tensor) {
  pickle.global("torch._utils", "_rebuild_tensor_v2").opcode(Pickle::k_mark).opcode(Pickle::k_mark);
  pickle.text("storage").global("torch", "FloatStorage").text(key).text("cpu").integer(tensor.numel());
  pickle.opcode(Pickle::k_tuple).opcode(Pickle::k_persistent_id);
  pickle.integer(0).integers(tensor.sizes()).integers(tensor.strides()).opcode(Pickle::k_false);
  pickle.global("collections", "OrderedDict").opcode(Pickle::k_empty_tuple).opcode(Pickle::k_reduce);
  pickle.opcode(Pickle::k_tuple).opcode(Pickle::k_reduce);
}

std::string pickled(const std::vector<std::string>& paths, const std::vector<at::Tensor>& leaves) {
  Pickle pickle;
  pickle.opcode(Pickle::k_empty_dict).opcode(Pickle::k_mark);
  for (std::size_t i = 0; i < leaves.size(); ++i) add_tensor(pickle.text(paths[i]), std::to_string(i), leaves[i]);
  return pickle.opcode(Pickle::k_set_items).opcode(Pickle::k_stop).bytes();
}

}  // namespace

void write_state_dict(const std::string& path, const PyTree& params, const std::map<std::string, std::string>& notes) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& leaf : params.leaves()) leaves.push_back(leaf.detach().to(at::kCPU, at::kFloat).contiguous());
  const std::string pickle = pickled(params.paths(), leaves);
  try {
    caffe2::serialize::PyTorchStreamWriter writer(path);
    const auto add = [&writer](const std::string& name, const std::string& text) {
      writer.writeRecord(name, text.data(), text.size());
    };
    add("data.pkl", pickle);
    add("byteorder", "little");
    for (std::size_t i = 0; i < leaves.size(); ++i)
      writer.writeRecord("data/" + std::to_string(i), leaves[i].const_data_ptr(), leaves[i].nbytes());
    for (const auto& [name, text] : notes) add("extra/" + name, text);
    writer.writeEndOfFile();
  } catch (const c10::Error& error) {
    throw DataError("cannot write " + path, error.what_without_backtrace(), "free disk space");
  }
}

}  // namespace ripieno

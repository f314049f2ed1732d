// ripieno-dataset import: one command a kind of source.

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/cli/program.hpp>
#include <ripieno/accounting/cli/value.hpp>
#include <ripieno/io/import_hdf5.hpp>
#include <ripieno/io/import_idx.hpp>
#include <ripieno/io/import_images.hpp>
#include <ripieno/io/import_npy.hpp>
#include <ripieno/io/import_table.hpp>
#include <ripieno/io/import_text.hpp>

#include "dataset_commands.hpp"
#include "dataset_progress.hpp"

namespace ripieno::dataset {

void add_output(cli::Group& group, io::ImportTarget& target) {
  group.add("out", target.out, "DIR", "folder to write to")
      .required()
      .add("name", target.spec.name, "NAME", "name of the files: NAME.json, NAME-00000-of-00004.h5")
      .add("shards", target.spec.num_shards, "N", "files that the dataset is cut into")
      .add("force", target.force, "", "replace a dataset of that name; without, nothing is overwritten");
}

void write_output(std::unique_ptr<io::ExampleSource> source, const io::ImportTarget& target, const std::string& what) {
  ProgressLine line(what);
  const std::filesystem::path manifest = io::import_examples(std::move(source), target, line.import());
  log::info("wrote " + manifest.string());
}

namespace {

namespace fs = std::filesystem;

/// What most imports are told of their output.
struct Output {
  io::ImportTarget target;
  std::string unit = "example";

  Output() { target.spec.name = "train"; }

  void add(cli::Options& options) {
    cli::Group& group = options.group("output");
    add_output(group, target);
    group.add("split", target.spec.split, "NAME", "which part of the data this is")
        .add_choice("privacy-unit", unit, {"example", "user", "public"}, "what the guarantee protects; public: nothing")
        .add("provenance", target.spec.provenance, "TEXT", "where the data come from, for people");
  }

  int write(std::unique_ptr<io::ExampleSource> source) {
    target.spec.privacy_unit = io::parse_privacy_unit(unit);
    write_output(std::move(source), target, "importing");
    return 0;
  }
};

constexpr const char* k_goes_on = " An import that was cut short goes on where it was when it is started again.";

int run_fashion_mnist(std::span<const std::string> arguments) {
  io::FashionMnistImport import;
  cli::Options options("ripieno-dataset import fashion-mnist",
                       std::string("Imports Fashion-MNIST: OUT/train.json, whose examples are private, and "
                                   "OUT/test.json, public.") +
                           k_goes_on,
                       dependencies());
  cli::Group& group = options.group("import");
  group.add("from", import.from, "DIR", "folder of the four IDX files, compressed or not")
      .required()
      .add("out", import.out, "DIR", "folder to write to")
      .required()
      .add("shards", import.num_shards, "N", "files that each split is cut into")
      .add("force", import.force, "", "replace what is there; without, nothing is overwritten");
  if (!options.parse(arguments)) return 0;
  ProgressLine line("importing");
  for (const fs::path& manifest : io::import_fashion_mnist(import, line.import()))
    log::info("wrote " + manifest.string());
  return 0;
}

int run_idx(std::span<const std::string> arguments) {
  fs::path images, labels;
  Output output;
  cli::Options options("ripieno-dataset import idx",
                       std::string("Imports a pair of IDX files (the format of MNIST).") + k_goes_on, dependencies());
  options.group("import")
      .add("images", images, "FILE", "IDX file of examples: u8, i8, i32 or f32 of any shape")
      .required()
      .add("labels", labels, "FILE", "IDX file of one integer an example")
      .required()
      .add("classes", output.target.spec.num_classes, "N", "number of classes; 0: one more than the largest label");
  output.add(options);
  if (!options.parse(arguments)) return 0;
  return output.write(io::open_idx(images, labels));
}

int run_npy(std::span<const std::string> arguments) {
  fs::path examples, labels;
  Output output;
  cli::Options options("ripieno-dataset import npy",
                       std::string("Imports a pair of NumPy arrays saved with numpy.save.") + k_goes_on,
                       dependencies());
  options.group("import")
      .add("x", examples, "FILE", "examples, the first dimension counting them; any number type but complex")
      .required()
      .add("y", labels, "FILE", "labels of any shape: integers, or floating-point targets")
      .required()
      .add("classes", output.target.spec.num_classes, "N", "number of classes; 0: one more than the largest label");
  output.add(options);
  if (!options.parse(arguments)) return 0;
  return output.write(io::open_npy(examples, labels));
}

int run_hdf5(std::span<const std::string> arguments) {
  fs::path file;
  std::string examples = "x", labels = "y";
  Output output;
  cli::Options options(
      "ripieno-dataset import hdf5",
      std::string("Imports two datasets of any HDF5 file: chunked, compressed, of any number type.") + k_goes_on,
      dependencies());
  options.group("import")
      .add("from", file, "FILE", "the HDF5 file")
      .required()
      .add("x", examples, "DATASET", "examples, the first dimension counting them")
      .add("y", labels, "DATASET", "labels of any shape: integers, or floating-point targets")
      .add("classes", output.target.spec.num_classes, "N", "number of classes; 0: one more than the largest label");
  output.add(options);
  if (!options.parse(arguments)) return 0;
  return output.write(io::open_hdf5(file, examples, labels));
}

int run_table(std::span<const std::string> arguments, const char* name, char delimiter) {
  fs::path schema;
  std::vector<std::string> files;
  Output output;
  cli::Options options(std::string("ripieno-dataset import ") + name,
                       std::string("Imports tables, one record an example, columns as a schema declares them "
                                   "(docs/formats.md).") +
                           k_goes_on,
                       dependencies());
  options.positional("FILE", files, "tables with a line of column names", 1);
  options.group("import").add("schema", schema, "FILE", "JSON file that says what each column is").required();
  output.add(options);
  if (!options.parse(arguments)) return 0;
  return output.write(io::open_table({files.begin(), files.end()}, delimiter, schema));
}

int run_csv(std::span<const std::string> arguments) { return run_table(arguments, "csv", ','); }
int run_tsv(std::span<const std::string> arguments) { return run_table(arguments, "tsv", '\t'); }

/// "32x32": height, width.
void read_size(const std::string& text, io::ImageFolder& folder) {
  const std::size_t cross = text.find('x');
  std::int64_t height = 0, width = 0;
  if (cross == std::string::npos) throw UsageError("--size " + text, "HEIGHTxWIDTH is expected, as 32x32");
  cli::read_value("--size", text.substr(0, cross), height);
  cli::read_value("--size", text.substr(cross + 1), width);
  folder.height = height;
  folder.width = width;
}

int run_images(std::span<const std::string> arguments) {
  io::ImageFolder folder;
  std::optional<std::string> size;
  Output output;
  cli::Options options("ripieno-dataset import images",
                       std::string("Imports PNG and JPEG files from a folder with one folder a class.") + k_goes_on,
                       dependencies());
  options.group("import")
      .add("from", folder.root, "DIR", "DIR/CLASS/….png, .jpg, .jpeg")
      .required()
      .add("channels", folder.channels, "1|3", "grey, or red, green and blue")
      .add("size", size, "HxW", "scale every image to this size; without, all must be of one size");
  output.add(options);
  if (!options.parse(arguments)) return 0;
  if (size) read_size(*size, folder);
  return output.write(io::open_images(folder));
}

int run_text(std::span<const std::string> arguments) {
  io::TextImport import;
  std::string unit = "line";
  Output output;
  cli::Options options("ripieno-dataset import text",
                       std::string("Imports text as byte tokens: token b is byte b, 256 is padding.") + k_goes_on,
                       dependencies());
  options.group("import")
      .add("from", import.root, "PATH", "a text file, or a folder of them")
      .required()
      .add_choice("example", unit, {"line", "file", "window"},
                  "what one example is; a window's label is the same text one byte further on")
      .add("length", import.length, "N", "bytes of a window; most bytes that a line or file keeps, 0: all")
      .add("class-folders", import.class_folders, "", "PATH/CLASS/…: the folder is the label of its lines or files");
  output.add(options);
  if (!options.parse(arguments)) return 0;
  import.unit = unit == "line" ? io::TextUnit::line : unit == "file" ? io::TextUnit::file : io::TextUnit::window;
  return output.write(io::open_text(import));
}

}  // namespace

int run_import(std::span<const std::string> arguments) {
  const std::vector<cli::Command> commands{{"fashion-mnist", "the four files of Fashion-MNIST", run_fashion_mnist},
                                           {"idx", "a pair of IDX files, as of MNIST", run_idx},
                                           {"npy", "a pair of NumPy arrays", run_npy},
                                           {"csv", "comma-separated tables with a schema", run_csv},
                                           {"tsv", "tab-separated tables with a schema", run_tsv},
                                           {"images", "PNG and JPEG files in one folder a class", run_images},
                                           {"text", "text files, as byte tokens", run_text},
                                           {"hdf5", "two datasets of any HDF5 file", run_hdf5}};
  return cli::dispatch("ripieno-dataset import", "Writes a dataset as sharded HDF5 files with a manifest.", commands,
                       arguments, dependencies());
}

}  // namespace ripieno::dataset

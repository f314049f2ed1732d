#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/mechanisms/optimise.hpp>
#include <ripieno/accounting/mechanisms/strategy_json.hpp>
#include <ripieno/framework/training/argument_reader.hpp>
#include <ripieno/framework/training/mechanism_options.hpp>
#include <ripieno/framework/training/optimizer_options.hpp>
#include <ripieno/io/matrix_file.hpp>

namespace ripieno {
namespace {

constexpr const char* k_independent = "gaussian";
constexpr const char* k_correlated_prefix = "mf:";
constexpr std::int64_t k_default_bands = 32;
constexpr std::int64_t k_default_buffers = 10;

/// Sums as SGD takes them with this momentum, weighed by the learning rate of each step.
accounting::Workload workload_of(const TrainConfig& config, std::int64_t steps, double momentum) {
  accounting::Workload workload;
  if (momentum > 0) workload.ratios.push_back(momentum);
  if (config.schedule == "constant") return workload;
  const optim::LearningRate rate = learning_rate(config, steps);
  for (std::int64_t step = 0; step < steps; ++step) workload.learning_rates.push_back(rate.at(step));
  return workload;
}

std::int64_t default_bands(const SamplingSchedule& schedule) {
  return std::min({schedule.schema().min_separation, schedule.steps(), k_default_bands});
}

accounting::Strategy make_strategy(const std::string& name, ArgumentReader& arguments, const SamplingSchedule& schedule,
                                   const TrainConfig& config) {
  const double momentum = config.optimizer == "sgd" ? config.momentum : 0;
  const auto workload = [&](double m) { return workload_of(config, schedule.steps(), m); };
  if (name == "identity") return accounting::IdentityStrategy{};
  if (name == "blt") {
    const auto buffers = arguments.value<std::int64_t>("buffers", k_default_buffers);
    return accounting::optimal_blt(buffers, schedule.steps(), schedule.schema(),
                                   workload(arguments.value("momentum", momentum)));
  }
  if (name == "band-mf") {
    const auto bands = arguments.value<std::int64_t>("bands", default_bands(schedule));
    return accounting::optimal_band_mf(bands, schedule.steps(), workload(arguments.value("momentum", momentum)));
  }
  if (name == "bsr") {
    return accounting::BsrStrategy{arguments.value<std::int64_t>("bandwidth", default_bands(schedule)),
                                   arguments.value("alpha", 1.0), arguments.value("beta", momentum)};
  }
  if (name == "bisr") {
    return accounting::BisrStrategy{arguments.value<std::int64_t>("bandwidth", 4),
                                    arguments.value("normalised", true),
                                    arguments.value("momentum", momentum),
                                    {}};
  }
  if (name == "lambda-cgd") {
    return accounting::LambdaCgdStrategy{arguments.required<double>("lambda"), arguments.value("normalised", true)};
  }
  if (name == "dense") {
    const auto file = arguments.required<std::string>("file");
    io::Matrix matrix = io::read_matrix(file, arguments.value<std::string>("dataset", "matrix"));
    if (matrix.rows != matrix.columns) {
      throw DataError("the matrix in " + file + " has " + std::to_string(matrix.rows) + " rows and " +
                      std::to_string(matrix.columns) + " columns");
    }
    return accounting::DenseStrategy{matrix.rows, std::move(matrix.values)};
  }
  throw UsageError("mechanism mf:" + name + " is not available",
                   "available: gaussian, mf: with one of " + join(accounting::strategy_names()));
}

}  // namespace

SamplerPlan sampler_of(const TrainConfig& config) {
  SamplerPlan sampler{.kind = sampler_kind(config.sampler)};
  if (config.max_batch && sampler.kind == SamplerKind::poisson) sampler.kind = SamplerKind::truncated_poisson;
  ArgumentReader arguments("--sampler-arg", "--sampler " + config.sampler, config.sampler_args);
  if (sampler.kind == SamplerKind::cyclic_poisson) sampler.parts = arguments.required<std::int64_t>("parts");
  if (sampler.kind == SamplerKind::min_separated) sampler.separation = arguments.required<std::int64_t>("separation");
  arguments.finish();
  if (sampler.kind == SamplerKind::truncated_poisson) {
    if (!config.max_batch) throw UsageError("--sampler truncated-poisson needs --max-batch");
    sampler.max_batch = *config.max_batch;
  } else if (config.max_batch) {
    throw UsageError("--max-batch does not apply to --sampler " + config.sampler, "it cuts Poisson draws");
  }
  return sampler;
}

std::int64_t steps_of_epochs(double epochs, const SamplerPlan& sampler, std::int64_t num_examples,
                             double expected_batch) {
  if (sampler.kind != SamplerKind::sequential) {
    return static_cast<std::int64_t>(std::ceil(epochs / (expected_batch / static_cast<double>(num_examples))));
  }
  // A pass leaves out what does not fill a batch.
  return static_cast<std::int64_t>(std::ceil(epochs * std::floor(static_cast<double>(num_examples) / expected_batch)));
}

std::optional<accounting::Strategy> strategy_of(const TrainConfig& config, const SamplingSchedule& schedule) {
  ArgumentReader arguments("--mechanism-arg", "--mechanism " + config.mechanism, config.mechanism_args);
  std::optional<accounting::Strategy> strategy;
  if (config.mechanism.starts_with(k_correlated_prefix)) {
    strategy =
        make_strategy(config.mechanism.substr(std::string(k_correlated_prefix).size()), arguments, schedule, config);
  } else if (config.mechanism != k_independent) {
    throw UsageError("mechanism '" + config.mechanism + "' is not available",
                     "available: gaussian, mf: with one of " + join(accounting::strategy_names()));
  }
  arguments.finish();
  return strategy;
}

std::string mechanism_help() {
  return "KEY=VALUE of a strategy: blt: buffers (at most), momentum; band-mf: bands, momentum; bsr: bandwidth, alpha, "
         "beta; bisr: bandwidth, momentum, normalised; lambda-cgd: lambda, normalised; dense: file, dataset (of HDF5). "
         "Momentum and beta are the optimizer's unless given";
}

}  // namespace ripieno

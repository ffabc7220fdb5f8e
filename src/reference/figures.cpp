#include "reference/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "account/flops.h"
#include "account/parameters.h"
#include "account/peaks.h"

namespace stretto {
namespace {

double d(int64_t x) { return static_cast<double>(x); }

Interval rounded(const Published& p) { return {p.value - p.half, p.value + p.half}; }
Interval truncated(const Published& p) { return {p.value, p.value + 2 * p.half}; }
Interval exact(double x) { return {x, x}; }

FigureTest test_of(const char* name, const Published& published, Interval range, double recomputed,
                   Interval recomputed_range) {
  FigureTest test;
  test.name = name;
  test.published = published.text;
  test.published_value = published.value;
  test.published_range = range;
  test.recomputed = recomputed;
  test.recomputed_range = recomputed_range;
  return test;
}

FigureTest integer_test(const char* name, FigureKind kind, double published, double recomputed) {
  FigureTest test;
  test.name = name;
  test.kind = kind;
  test.published = fmt::format("{:.0f}", published);
  test.published_value = published;
  test.published_range = exact(published);
  test.recomputed = recomputed;
  test.recomputed_range = exact(recomputed);
  return test;
}

// --- MPT and MosaicGPT: tokens per second are measured, the rest follows ------------------------

struct Throughput {
  double value;
  Interval range;
};

void add_batch_tests(std::vector<FigureTest>& tests, const ReferenceRow& r) {
  if (r.global_batch && r.seq_len && r.global_batch_tokens) {
    tests.push_back(integer_test("batch in tokens", FigureKind::strict, d(*r.global_batch_tokens),
                                 d(*r.global_batch) * d(*r.seq_len)));
  }
  if (r.global_batch && r.grad_accum && r.micro_batch) {
    tests.push_back(integer_test("global batch", FigureKind::strict, d(*r.global_batch),
                                 d(*r.micro_batch) * d(*r.grad_accum) * d(r.devices())));
  }
}

void add_throughput_tests(std::vector<FigureTest>& tests, const ReferenceRow& r,
                          const Throughput& tokens, bool truncates) {
  const auto add = [&](const char* name, const std::optional<Published>& p, double divisor) {
    if (!p || divisor <= 0) return;
    const double quotient = tokens.value / divisor;
    tests.push_back(test_of(name, *p, truncates ? truncated(*p) : rounded(*p),
                            truncates ? std::floor(quotient) : quotient,
                            {tokens.range.low / divisor, tokens.range.high / divisor}));
  };
  add("sequences/s", r.samples_per_sec, d(r.seq_len.value_or(0)));
  add("tokens/s/GPU", r.tokens_per_sec_per_gpu, d(r.devices()));
}

// MFU and the like are printed with four decimals, of which a trailing zero may be missing.
Interval fraction_range(const Published& p) {
  const double half = std::min(p.half, 0.00005);
  return {p.value - half, p.value + half};
}

void add_utilization_tests(std::vector<FigureTest>& tests, const ReferenceRow& r,
                           const FlopsPerToken& flops, const Throughput& tokens, double peak) {
  const double devices = d(r.devices());
  const auto mid = utilization(flops, tokens.value, devices, peak);
  const auto low = utilization(flops, tokens.range.low, devices, peak);
  const auto high = utilization(flops, tokens.range.high, devices, peak);
  if (!mid || !low || !high) return;
  const auto add = [&](const char* name, const std::optional<Published>& p,
                       double Utilization::*member) {
    if (!p) return;
    tests.push_back(
        test_of(name, *p, fraction_range(*p), (*mid).*member, {(*low).*member, (*high).*member}));
  };
  add("MFU*", r.mfu_star, &Utilization::mfu_star);
  add("MFU", r.mfu, &Utilization::mfu);
  add("HFU*", r.hfu_star, &Utilization::hfu_star);
  add("HFU", r.hfu, &Utilization::hfu);
}

// In units of 1e14 FLOP/s per GPU. In 75 rows the figure is the rounded MFU times the peak.
void add_model_tflop_test(std::vector<FigureTest>& tests, const ReferenceRow& r,
                          const FlopsPerToken& flops, const Throughput& tokens, double peak) {
  if (r.tflops_raw.empty() || r.devices() == 0) return;
  const auto place = fmt::format("{}.csv:{}: tflops_raw", r.file, r.line);
  const Published raw = parse_published(r.tflops_raw, place);
  const double scale = flops.model_total() / d(r.devices()) / 1e14;
  FigureTest test = test_of("Model TFLOP", raw, rounded(raw), tokens.value * scale,
                            {tokens.range.low * scale, tokens.range.high * scale});
  if (r.mfu) {
    test.has_second_source = true;
    const double filled_in = r.mfu->value * peak / 1e14;
    // Decimal digits as binary fractions: the last bit of the product may differ.
    test.second_range = {filled_in * (1 - 1e-12), filled_in * (1 + 1e-12)};
  }
  tests.push_back(test);
}

std::vector<FigureTest> composer_tests(const ReferenceRow& r) {
  const bool mpt = r.file == "mpt";
  std::vector<FigureTest> tests;
  if (r.params) {
    tests.push_back(integer_test("parameters", FigureKind::strict, d(*r.params),
                                 d(parameter_count(r.shape()))));
  }
  add_batch_tests(tests, r);
  const auto format = r.precision == "amp_fp8" ? PeakFormat::fp8 : PeakFormat::bf16;
  const auto peak = device_peak(r.hardware, format);
  if (!r.tokens_per_sec || !r.seq_len || !peak) return tests;
  const Throughput tokens = {r.tokens_per_sec->value,
                             mpt ? truncated(*r.tokens_per_sec) : rounded(*r.tokens_per_sec)};
  const auto flops = flops_per_token(mpt ? Convention::mpt : Convention::mosaicgpt, r.shape(),
                                     *r.seq_len, r.checkpointing());
  add_throughput_tests(tests, r, tokens, mpt);
  add_utilization_tests(tests, r, flops, tokens, *peak);
  if (mpt) add_model_tflop_test(tests, r, flops, tokens, *peak);
  return tests;
}

// --- BLOOM and Fugaku: seconds per iteration are measured ----------------------------------------

// For 30B on Fugaku no vocabulary is stated. It is GPT-2's, unpadded or padded to 8 x 128 shards.
struct Vocabulary {
  int64_t low, likely, high;
};

Vocabulary vocabulary_of(const ReferenceRow& r) {
  if (r.vocab) return {*r.vocab, *r.vocab, *r.vocab};
  return {50257, 50304, 51200};
}

double iteration_tflops(const ReferenceRow& r, int64_t vocab, double seconds) {
  ModelShape shape = r.shape();
  shape.vocab = vocab;
  const bool old = r.flops_basis.starts_with("old");
  const auto flops =
      flops_per_token(old ? Convention::megatron_old : Convention::megatron, shape, *r.seq_len,
                      r.checkpointing(), {r.tp.value_or(1), r.pp.value_or(1)});
  const double tokens = d(*r.global_batch) * d(*r.seq_len);
  return flops.hardware_total() * tokens / (seconds * d(r.devices())) / 1e12;
}

void add_tflops_test(std::vector<FigureTest>& tests, const ReferenceRow& r) {
  if (!r.tflops || !r.sec_per_iter || !r.global_batch || !r.seq_len || !r.layers || !r.hidden ||
      r.devices() == 0 || r.sec_per_iter->value <= r.sec_per_iter->half) {
    return;
  }
  const Vocabulary v = vocabulary_of(r);
  const Interval sec = rounded(*r.sec_per_iter);
  Interval published = rounded(*r.tflops);
  if (r.table == "004-T02") {
    // Printed in steps of 0.005: each is the mean of two readings with two decimals.
    published = {r.tflops->value - 0.005, r.tflops->value + 0.005};
  }
  tests.push_back(
      test_of("TFLOPs", *r.tflops, published, iteration_tflops(r, v.likely, r.sec_per_iter->value),
              {iteration_tflops(r, v.low, sec.high), iteration_tflops(r, v.high, sec.low)}));
  tests.back().kind = FigureKind::formula;
}

void add_aggregate_test(std::vector<FigureTest>& tests, const ReferenceRow& r) {
  if (!r.aggregate_pflops || !r.tflops) return;
  const double scale = d(r.devices()) / 1024;  // the document divides by 1024, not 1000
  const Interval t = rounded(*r.tflops);
  tests.push_back(test_of("aggregate", *r.aggregate_pflops, rounded(*r.aggregate_pflops),
                          r.tflops->value * scale, {t.low * scale, t.high * scale}));
}

void add_structure_tests(std::vector<FigureTest>& tests, const ReferenceRow& r) {
  if (r.dp && r.tp && r.pp && r.devices() > 0) {
    tests.push_back(integer_test("devices", FigureKind::structure, d(r.devices()),
                                 d(*r.dp) * d(*r.tp) * d(*r.pp)));
  }
  if (!r.dp || !r.micro_batch || *r.dp * *r.micro_batch == 0) return;
  const double unit = d(*r.dp * *r.micro_batch), batch = d(r.global_batch.value_or(0));
  const double whole = std::max(1.0, std::floor(batch / unit)) * unit;
  FigureTest test = integer_test("batch divides", FigureKind::structure, batch, whole);
  if (!r.global_batch) test.published = "blank";
  tests.push_back(test);
}

std::vector<FigureTest> megatron_tests(const ReferenceRow& r) {
  std::vector<FigureTest> tests;
  add_structure_tests(tests, r);
  add_tflops_test(tests, r);
  add_aggregate_test(tests, r);
  if (r.samples_per_sec && r.sec_per_iter && r.global_batch && r.sec_per_iter->value > 1e-6) {
    const double batch = d(*r.global_batch);
    const Interval sec = rounded(*r.sec_per_iter);
    tests.push_back(test_of("samples/s", *r.samples_per_sec, rounded(*r.samples_per_sec),
                            batch / r.sec_per_iter->value, {batch / sec.high, batch / sec.low}));
  }
  return tests;
}

}  // namespace

bool FigureTest::reproduces() const {
  return recomputed_range.meets(published_range) ||
         (has_second_source && second_range.meets(published_range));
}

double FigureTest::relative_error() const {
  double error = std::abs(recomputed - published_value);
  if (has_second_source && !recomputed_range.meets(published_range)) {
    error = std::abs((second_range.low + second_range.high) / 2 - published_value);
  }
  return error == 0 ? 0 : error / std::max(std::abs(published_value), 1e-12);
}

std::vector<FigureTest> figure_tests(const ReferenceRow& row) {
  return row.file == "mpt" || row.file == "mosaicgpt" ? composer_tests(row) : megatron_tests(row);
}

}  // namespace stretto

#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <span>

#include "base/embedded.h"
#include "base/error.h"
#include "base/shell_text.h"
#include "bench/figures.h"
#include "bench/launcher.h"
#include "bench/measure.h"
#include "bench/observe.h"
#include "bench/report_losses.h"
#include "bench/report_table.h"
#include "bench/safe_text.h"
#include "bench/tables.h"
#include "plan/forecast.h"

namespace stretto {

std::span<const EmbeddedFile> embedded_report();

namespace {

using nlohmann::json;

std::string_view asset(std::string_view name) {
  for (const EmbeddedFile& file : embedded_report()) {
    if (file.name == name) return file.content;
  }
  return "";
}

// Inside a script element only "<" could end the element.
std::string embeddable(const json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', true, json::error_handler_t::replace)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

json optional_number(std::optional<double> value) { return value ? json(*value) : json(); }

// Keeps the digits that can be seen in a chart.
json rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 4);
  return std::round(value / unit) * unit;
}

json operators(const RunRecord& r) {
  json out = json::array();
  for (size_t i = 0; i < kOps; ++i) {
    const OpTotals& t = r.operators[i];
    if (t.calls == 0 || t.flops == 0) continue;
    out.push_back(
        {name_of(static_cast<Op>(i)), rounded(t.seconds), rounded(t.flops), rounded(t.bytes)});
  }
  return out;
}

// A longer timeline could not be read on a page.
constexpr size_t kTimelineTasks = 4000, kTimelines = 40;

json timeline(const RunRecord& r) {
  json out = json::array();
  size_t tasks = 0;
  for (const auto& stage : r.timeline) tasks += stage.size();
  if (r.timeline.size() < 2 || tasks > kTimelineTasks) return out;
  for (const auto& stage : r.timeline) {
    json& line = out.emplace_back(json::array());
    for (const RunTask& t : stage) {
      line.push_back({static_cast<int>(t.kind), t.micro_batch, t.chunk,
                      std::round(t.start * 1e6) / 1e6, std::round(t.end * 1e6) / 1e6});
    }
  }
  return out;
}

// Bytes per second of one device: the same share of the machine's as it has of matrix products. 0:
// not measured, as on GPUs.
double bandwidth_of(const RunRecord& r) {
  if (r.config.device == Device::cuda) return 0;
  const json machine = json::parse(r.machine, nullptr, false);
  if (!machine.is_object() || !machine.contains("measured")) return 0;
  const json& rates = machine["measured"];
  if (!rates.is_object()) return 0;
  const auto rate = [&](const char* key) {
    const json value = rates.value(key, json());
    return value.is_number() ? value.get<double>() : 0.0;
  };
  const double all = product_rate(r.config, rates);
  return all > 0 ? rate("triad_bytes_per_second") * r.gemm_peak / all : 0;
}

// All zero for a run that did not end well, so that its speed is in no chart and no ranking.
Figures counted_figures(const RunRecord& r) {
  if (r.counts()) return derive(r);
  RunRecord untimed = r;
  untimed.steps.clear();
  untimed.warmup = 0;
  return derive(untimed);
}

// Whether `train` wrote it, not a sweep or `bench`.
bool trained(const RunRecord& r) { return r.command.size() > 1 && r.command[1] == "train"; }

// A run without a label is called by its model, its layout and its time.
std::string shown_name(const RunRecord& r) {
  if (!r.label.empty()) return r.label;
  return fmt::format("{} {} {}", r.config.model.name, plan::describe(plan::layout_of(r.config)),
                     r.started);
}

// Names of the parts of one training run, which differ in little but their time.
std::vector<std::string> part_names(const std::vector<RunRecord>& records) {
  std::vector<std::string> names;
  for (const RunRecord& r : records) {
    const auto before = std::count_if(records.begin(), records.end(), [&](const RunRecord& other) {
      return other.started < r.started;
    });
    names.push_back(fmt::format("part {}, {}", before + 1, r.started));
  }
  return names;
}

// If no run can be predicted from another one, each shows what was predicted before it began.
std::vector<RecordForecast> shown_forecasts(const std::vector<RunRecord>& records) {
  std::vector<RecordForecast> forecasts = forecasts_of(records);
  const auto told = [](const RecordForecast& f) { return f.forecast && !f.known; };
  if (std::any_of(forecasts.begin(), forecasts.end(), told)) return forecasts;
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].predicted.seconds <= 0) continue;
    forecasts[i].forecast.reset();
    forecasts[i].known = false;
  }
  return forecasts;
}

json row_json(const RunRecord& r, const std::string& name, const RecordForecast& forecast,
              int64_t stretch) {
  const Config& c = r.config;
  const Figures f = counted_figures(r);
  const auto& u = f.of(Convention::mpt).utilization;
  json parts = json::object();
  for (size_t i = 0; i < kParts; ++i) parts[name_of(static_cast<Part>(i))] = r.parts[i];
  return {{"label", without_control(name)},
          {"status", name_of(r.status)},
          {"reason", without_control(r.reason)},
          {"busy", r.disturbed() ? describe(r.cores) : ""},
          {"log_tail", without_control(r.log_tail, true)},
          {"command", command_line(r)},
          {"launcher", r.launcher},
          {"started", without_control(r.started)},
          {"model", without_control(c.model.name)},
          {"seq", c.seq_len},
          {"precision", name_of(c.precision)},
          {"dp", c.parallel.dp},
          {"tp", c.parallel.tp},
          {"pp", c.parallel.pp},
          {"zero", zero_in_effect(c)},
          {"checkpointing", name_of(c.activation_checkpointing)},
          {"micro", c.micro_batch},
          {"accum", grad_accumulation(c)},
          {"global", c.global_batch},
          {"devices", r.devices()},
          {"tokens", f.tokens_per_second},
          {"low", f.low_tokens_per_second},
          {"high", f.high_tokens_per_second},
          {"per_device", f.tokens_per_second_per_device},
          {"seconds", f.step.median},
          {"low_s", f.step.low},
          {"high_s", f.step.high},
          {"mfu", u ? json(u->mfu) : json()},
          {"hfu", u ? json(u->hfu) : json()},
          {"gemm", optional_number(f.gemm_fraction)},
          {"memory_rank", r.memory.predicted_rank},
          {"memory_total", r.memory.predicted_total},
          {"memory_measured", r.memory.grown_total},
          {"memory_grown", r.memory.grown_rank},
          {"limit", r.memory.limit},
          {"memory_foreseen", foreseen_memory(r, forecast)},
          {"predicted", foreseen_seconds(r, forecast)},
          {"known", forecast.known},
          {"terms", r.memory.predicted_terms},
          {"parts", std::move(parts)},
          {"gemm_flops", r.gemm_peak},
          {"bandwidth", bandwidth_of(r)},
          {"ops", operators(r)},
          {"schedule", name_of(c.parallel.schedule)},
          {"losses", loss_curve(r, stretch)}};
}

// The different texts that `get` gives for the records, in their order.
template <typename Get>
std::string each_once(const std::vector<RunRecord>& records, const Get& get) {
  std::vector<std::string> texts;
  for (const RunRecord& r : records) {
    const std::string text = get(r);
    const bool known = std::find(texts.begin(), texts.end(), text) != texts.end();
    if (!text.empty() && !known) texts.push_back(text);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string origin_line(const std::vector<RunRecord>& records) {
  if (records.empty()) return "no records";
  const std::string peaks =
      each_once(records, [](const RunRecord& r) { return r.peak > 0 ? r.peak_source : ""; });
  return fmt::format(
      "{}; stretto {}{}", each_once(records, [](const RunRecord& r) { return r.device; }),
      each_once(records, [](const RunRecord& r) { return r.build.version + " " + r.build.commit; }),
      peaks.empty()
          ? ""
          : "; MFU and HFU by the mpt convention (6N + 12 L C T per token), against: " + peaks);
}

}  // namespace

std::string random_nonce() {
  std::random_device device;
  std::string out;
  for (int i = 0; i < 4; ++i) out += fmt::format("{:08x}", device());
  return out;
}

bool one_training_run(const std::vector<RunRecord>& records) {
  return std::all_of(records.begin(), records.end(), [&](const RunRecord& r) {
    return trained(r) && r.config.output == records.front().config.output;
  });
}

std::string report_page(const std::vector<RunRecord>& records, const std::string& title,
                        const std::string& nonce, const TrainingCurve& curve) {
  STRETTO_CHECK(is_safe_name(nonce));
  json data = {{"rows", json::array()}, {"terms", json::array()}};
  const bool parts = one_training_run(records);
  const std::vector<std::string> part = parts ? part_names(records) : std::vector<std::string>();
  data["loss_spread"] = loss_spread(records);
  data["continued"] = parts;
  data["training"] = training_losses(curve);
  const std::vector<std::string> apart = incomparable(records);
  const std::vector<RecordForecast> forecasts = shown_forecasts(records);
  const int64_t stretch = curve_stretch(records);
  size_t timelines = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    json& row = data["rows"].emplace_back(
        row_json(records[i], parts ? part[i] : shown_name(records[i]), forecasts[i], stretch));
    row["apart"] = apart[i];
    json tasks = timeline(records[i]);
    if (!tasks.empty() && ++timelines <= kTimelines) row["timeline"] = std::move(tasks);
  }
  for (int i = 0; i < kMemoryTerms; ++i) {
    data["terms"].push_back(name_of(static_cast<MemoryTerm>(i)));
  }
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src data:; base-uri 'none'; "
      "form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{1}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style nonce=\"{0}\">",
      nonce, markup_text(title));
  page += asset("report.css");
  page += fmt::format(
      "</style>\n</head>\n<body>\n<h1>{}</h1>\n<p id=\"finding\"></p>\n"
      "<p class=\"soft\">{}</p>\n<div class=\"facts\" id=\"facts\"></div>\n"
      "<nav id=\"contents\"></nav>\n<main id=\"main\">\n{}</main>\n"
      "<noscript>Charts and sorting need this page's own script.</noscript>\n"
      "<script type=\"application/json\" id=\"data\" nonce=\"{}\">{}</script>\n",
      markup_text(title), markup_text(origin_line(records)), static_table(data), nonce,
      embeddable(data));
  for (const char* script : {"chart.min.js", "report.js", "charts.js", "sections.js"}) {
    page += fmt::format("<script nonce=\"{}\">", nonce);
    page += asset(script);
    page += "</script>\n";
  }
  return page + "</body>\n</html>\n";
}

}  // namespace stretto

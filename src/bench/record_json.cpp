// The record as JSON, both ways. What was not measured is left out: no number stands for "unknown".
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strict_json.h"
#include "bench/figures.h"
#include "bench/record.h"
#include "config/rules.h"
#include "config/serialize.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr size_t kMaxStages = 4096, kMaxTasks = 1 << 20;
constexpr size_t kMaxSteps = 10'000'000, kMaxText = 1 << 20, kMaxWords = 4096;
constexpr const char* kFormat = "stretto-run";

json loss_json(double loss) { return std::isfinite(loss) ? json(loss) : json(); }

json steps_json(const RunRecord& r) {
  json seconds = json::array(), losses = json::array(), skipped = json::array();
  for (size_t i = 0; i < r.steps.size(); ++i) {
    seconds.push_back(r.steps[i].seconds);
    losses.push_back(loss_json(r.steps[i].loss));
    if (r.steps[i].skipped) skipped.push_back(i);
  }
  return {
      {"seconds", std::move(seconds)}, {"loss", std::move(losses)}, {"skipped", std::move(skipped)},
      {"first", r.first_step},         {"warmup", r.warmup},        {"settled", r.settled}};
}

json parts_json(const RunRecord& r) {
  double total = 0;
  for (const double seconds : r.parts) total += seconds;
  json out = json::object();
  for (int i = 0; i < kParts; ++i) {
    const double seconds = r.parts[static_cast<size_t>(i)];
    out[name_of(static_cast<Part>(i))] = {{"seconds", seconds},
                                          {"percent", total > 0 ? 100 * seconds / total : 0}};
  }
  return out;
}

json memory_json(const RunMemory& m) {
  json terms = json::object();
  for (int i = 0; i < kMemoryTerms; ++i) {
    terms[name_of(static_cast<MemoryTerm>(i))] = m.predicted_terms[static_cast<size_t>(i)];
  }
  json out = {{"predicted_rank", m.predicted_rank},
              {"predicted_total", m.predicted_total},
              {"ranks_here", m.ranks_here},
              {"predicted_terms", std::move(terms)}};
  if (m.limit > 0) out["limit"] = m.limit;
  if (m.measured == 0) return out;
  out["measured"] = m.measured;
  out["before"] = m.before;
  out["grown_rank"] = m.grown_rank;
  out["grown_total"] = m.grown_total;
  return out;
}

json operators_json(const RunRecord& r) {
  json out = json::object();
  for (int i = 0; i < kOps; ++i) {
    const OpTotals& t = r.operators[static_cast<size_t>(i)];
    if (t.calls == 0) continue;
    out[name_of(static_cast<Op>(i))] = {
        {"calls", t.calls}, {"seconds", t.seconds}, {"flops", t.flops}, {"bytes", t.bytes}};
  }
  return out;
}

// A task is [kind, micro-batch, chunk, start, end].
json timeline_json(const RunRecord& r) {
  json out = json::array();
  for (const auto& stage : r.timeline) {
    json tasks = json::array();
    for (const RunTask& t : stage) {
      tasks.push_back({static_cast<int>(t.kind), t.micro_batch, t.chunk, t.start, t.end});
    }
    out.push_back(std::move(tasks));
  }
  return out;
}

json gpu_json(const RunGpu& g) {
  return {{"samples", g.samples},
          {"sm_clock_mhz", g.sm_clock_mhz},
          {"sm_clock_mhz_min", g.sm_clock_mhz_min},
          {"memory_clock_mhz", g.memory_clock_mhz},
          {"power_watts", g.power_watts},
          {"power_watts_max", g.power_watts_max},
          {"temperature_c_max", g.temperature_c_max},
          {"held_back_by", g.held_back_by}};
}

json cores_json(const CoreUse& c) {
  return {{"usable", c.usable}, {"wanted", c.wanted}, {"others", c.others}, {"idle", c.idle}};
}

// Reads the members of one object. Every error names the path of the member.
class Reader {
 public:
  Reader(const json& object, std::string path, const std::string& file)
      : object_(object), path_(std::move(path)), file_(file) {
    if (!object.is_object()) fail("", "an object");
  }

  Reader at(const char* key) const { return {member(key), path_ + key + ".", file_}; }
  const json& member(const char* key) const {
    const auto it = object_.find(key);
    if (it == object_.end()) fail(key, "there");
    return *it;
  }
  bool has(const char* key) const { return object_.contains(key); }

  std::string text(const char* key) const { return text_of(member(key), key); }
  bool flag(const char* key) const {
    const json& value = member(key);
    if (!value.is_boolean()) fail(key, "true or false");
    return value.get<bool>();
  }
  double number(const char* key) const { return number_of(member(key), key); }
  double number_if_there(const char* key) const { return has(key) ? number(key) : 0; }
  int64_t integer(const char* key, int64_t most = int64_t{1} << 53) const {
    const json& value = member(key);
    if (!value.is_number_integer()) fail(key, "a whole number");
    const bool large =
        value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most);
    if (large || value.get<int64_t>() < 0 || value.get<int64_t>() > most) {
      fail(key, fmt::format("a whole number from 0 to {}", most));
    }
    return value.get<int64_t>();
  }
  int64_t integer_if_there(const char* key) const { return has(key) ? integer(key) : 0; }
  const json& list(const char* key, size_t most) const {
    const json& value = member(key);
    if (!value.is_array() || value.size() > most)
      fail(key, fmt::format("a list of at most {}", most));
    return value;
  }
  std::string text_of(const json& value, const char* key) const {
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kMaxText) {
      fail(key, "a text of at most 1 MiB");
    }
    return value.get<std::string>();
  }
  double number_of(const json& value, const char* key) const {
    if (!value.is_number() || !(value.get<double>() >= 0) || !std::isfinite(value.get<double>())) {
      fail(key, "a finite number that is not negative");
    }
    return value.get<double>();
  }
  [[noreturn]] void fail(const std::string& key, const std::string& wanted) const {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: {}{} is not {}", printable(file_), printable(path_), key, wanted),
                "is this a record that `stretto bench --out` wrote?");
  }

 private:
  const json& object_;
  std::string path_;
  const std::string& file_;
};

void read_steps(const Reader& in, RunRecord& r) {
  const json& seconds = in.list("seconds", kMaxSteps);
  const json& losses = in.list("loss", kMaxSteps);
  if (losses.size() != seconds.size()) in.fail("loss", "as long as seconds");
  r.steps.resize(seconds.size());
  for (size_t i = 0; i < seconds.size(); ++i) {
    r.steps[i].seconds = in.number_of(seconds[i], "seconds");
    if (!(r.steps[i].seconds >= 1e-9 && r.steps[i].seconds <= 1e9)) {
      in.fail("seconds", "a list of numbers from 1e-9 to 1e9");
    }
    if (losses[i].is_null()) {
      r.steps[i].loss = std::numeric_limits<double>::quiet_NaN();
    } else {
      r.steps[i].loss = in.number_of(losses[i], "loss");
    }
  }
  for (const json& index : in.list("skipped", kMaxSteps)) {
    if (!index.is_number_unsigned() || index.get<uint64_t>() >= r.steps.size()) {
      in.fail("skipped", "a list of steps");
    }
    r.steps[index.get<uint64_t>()].skipped = true;
  }
  if (in.has("first")) r.first_step = in.integer("first");
  r.warmup = in.integer("warmup", std::ssize(r.steps));
  r.settled = in.flag("settled");
}

void read_memory(const Reader& in, RunMemory& m) {
  m.predicted_rank = in.integer("predicted_rank");
  m.predicted_total = in.integer("predicted_total");
  m.measured = in.integer_if_there("measured");
  m.before = in.integer_if_there("before");
  m.ranks_here = in.integer("ranks_here");
  m.limit = in.integer_if_there("limit");
  m.grown_rank = in.integer_if_there("grown_rank");
  m.grown_total = in.integer_if_there("grown_total");
  const Reader terms = in.at("predicted_terms");
  for (int i = 0; i < kMemoryTerms; ++i) {
    m.predicted_terms[static_cast<size_t>(i)] = terms.integer(name_of(static_cast<MemoryTerm>(i)));
  }
}

void read_gpu(const Reader& in, RunGpu& g) {
  g.samples = in.integer("samples");
  g.sm_clock_mhz = in.number("sm_clock_mhz");
  g.sm_clock_mhz_min = in.number("sm_clock_mhz_min");
  g.memory_clock_mhz = in.number("memory_clock_mhz");
  g.power_watts = in.number("power_watts");
  g.power_watts_max = in.number("power_watts_max");
  g.temperature_c_max = in.number("temperature_c_max");
  g.held_back_by = in.text("held_back_by");
}

void read_operators(const Reader& in, RunRecord& r) {
  for (int i = 0; i < kOps; ++i) {
    const char* name = name_of(static_cast<Op>(i));
    if (!in.has(name)) continue;
    const Reader one = in.at(name);
    r.operators[static_cast<size_t>(i)] = {static_cast<uint64_t>(one.integer("calls")),
                                           one.number("seconds"), one.number("flops"),
                                           one.number("bytes")};
  }
}

void read_timeline(const Reader& in, RunRecord& r) {
  for (const json& stage : in.list("timeline", kMaxStages)) {
    if (!stage.is_array() || stage.size() > kMaxTasks) in.fail("timeline", "a list of lists");
    std::vector<RunTask>& tasks = r.timeline.emplace_back();
    for (const json& t : stage) {
      if (!t.is_array() || t.size() != 5) in.fail("timeline", "a list of tasks of five numbers");
      double numbers[5];
      for (size_t i = 0; i < 5; ++i) numbers[i] = in.number_of(t[i], "timeline");
      if (numbers[0] > 3 || numbers[1] > 1e9 || numbers[2] > 1e6 || numbers[4] < numbers[3]) {
        in.fail("timeline", "a list of tasks");
      }
      tasks.push_back({static_cast<TaskKind>(numbers[0]), static_cast<int64_t>(numbers[1]),
                       static_cast<int64_t>(numbers[2]), numbers[3], numbers[4]});
    }
  }
}

std::string read_launcher(const Reader& in) {
  const std::string word = in.text("launcher");
  if (word != "threads" && word != "mpirun" && word != "srun") {
    in.fail("launcher", "threads, mpirun or srun");
  }
  return word;
}

// Members that some runs, or older records, do not have.
void read_optional(const Reader& in, RunRecord& r) {
  r.peak = in.number_if_there("peak_flops");
  r.gemm_peak = in.number_if_there("gemm_flops");
  if (in.has("attribution")) {
    const Reader parts = in.at("attribution");
    for (int i = 0; i < kParts; ++i) {
      r.parts[static_cast<size_t>(i)] = parts.at(name_of(static_cast<Part>(i))).number("seconds");
    }
  }
  r.parts_wall = in.number_if_there("attribution_wall");
  r.timing_overhead = in.number_if_there("timing_overhead");
  if (in.has("nodes")) r.nodes = std::max<int64_t>(1, in.integer("nodes", 1 << 20));
  if (in.has("asked_ranks")) r.asked_ranks = in.integer("asked_ranks", 1 << 20);
  if (in.has("operators")) read_operators(in.at("operators"), r);
  if (in.has("timeline")) read_timeline(in, r);
  if (in.has("turns")) r.turns = in.text("turns");
  if (in.has("launcher")) r.launcher = read_launcher(in);
  if (in.has("gpu")) read_gpu(in.at("gpu"), r.gpu);
  if (in.has("cores")) {
    const Reader c = in.at("cores");
    r.cores = {c.integer("usable"), c.number("wanted"), c.number("others"), c.number("idle")};
  }
  if (!in.has("predicted")) return;
  const Reader p = in.at("predicted");
  r.predicted = {p.number("seconds"), p.number("low"), p.number("high")};
}

RunStatus read_status(const Reader& in) {
  const std::string word = in.text("status");
  for (int i = 0; i <= static_cast<int>(RunStatus::rejected); ++i) {
    if (word == name_of(static_cast<RunStatus>(i))) return static_cast<RunStatus>(i);
  }
  in.fail("status", "ok, OOM, fail, timeout, diverged, killed, stopped or rejected");
}

// `possible`: a run was made with it, so its numbers are in their ranges and can be counted.
Config read_config(const Reader& in, bool possible) {
  Config config;
  try {
    config = config_from_json(in.member("config"));
  } catch (const Error& error) {
    in.fail("config", fmt::format("a configuration: {}", error.what()));
  }
  const ParallelConfig& p = config.parallel;
  constexpr int64_t kMost = int64_t{1} << 20;
  if (p.dp < 1 || p.tp < 1 || p.pp < 1 || p.dp > kMost || p.tp > kMost || p.pp > kMost) {
    in.fail("config.parallel", "degrees from 1 to 1048576");
  }
  if (config.micro_batch == kAuto) in.fail("config.micro_batch", "a definite number");
  if (!possible) return config;
  if (const std::vector<Finding> findings = check_config(config); leave_rules_out(findings)) {
    in.fail("config." + findings.front().key,
            fmt::format("possible: {}", findings.front().message));
  }
  return config;
}

}  // namespace

std::string config_hash(const Config& config) {
  Config same = config;
  same.output.clear();
  same.log = {};
  const std::string text = to_json(same).dump(-1, ' ', false, json::error_handler_t::replace);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

std::string record_text(const RunRecord& r) {
  json build = {{"version", r.build.version},
                {"commit", r.build.commit},
                {"compiler", r.build.compiler},
                {"flags", r.build.flags},
                {"libraries", r.build.libraries}};
  json document = {{"format", kFormat},
                   {"schema", RunRecord::kSchema},
                   {"source", r.source},
                   {"label", r.label},
                   {"command", r.command},
                   {"config", to_json(r.config)},
                   {"config_hash", config_hash(r.config)},
                   {"build", std::move(build)},
                   {"machine", r.machine.empty() ? json::object() : json::parse(r.machine)},
                   {"device", r.device},
                   {"peak_source", r.peak_source},
                   {"started", r.started},
                   {"wall_seconds", r.wall_seconds},
                   {"status", name_of(r.status)},
                   {"exit_code", r.exit_code},
                   {"reason", r.reason},
                   {"log_tail", r.log_tail},
                   {"steps", steps_json(r)},
                   {"memory", memory_json(r.memory)},
                   {"nodes", r.nodes},
                   {"operators", operators_json(r)},
                   {"timeline", timeline_json(r)},
                   {"figures", to_json(derive(r))}};
  if (r.peak > 0) document["peak_flops"] = r.peak;
  if (r.gemm_peak > 0) document["gemm_flops"] = r.gemm_peak;
  if (std::any_of(r.parts.begin(), r.parts.end(), [](double seconds) { return seconds > 0; })) {
    document["attribution"] = parts_json(r);
    document["attribution_wall"] = r.parts_wall;
    document["timing_overhead"] = r.timing_overhead;
  }
  const RunPrediction& p = r.predicted;
  if (p.seconds > 0) {
    document["predicted"] = {{"seconds", p.seconds}, {"low", p.low}, {"high", p.high}};
  }
  if (!r.launcher.empty()) document["launcher"] = r.launcher;
  if (r.asked_ranks > 0) document["asked_ranks"] = r.asked_ranks;
  if (!r.turns.empty()) document["turns"] = r.turns;
  if (r.gpu.samples > 0) document["gpu"] = gpu_json(r.gpu);
  if (r.cores.usable > 0) document["cores"] = cores_json(r.cores);
  return document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

RunRecord parse_record(std::string_view text, const std::string& name) {
  const json document = parse_json(text, printable(name));
  const Reader in(document, "", name);
  if (!in.has("format") || in.text("format") != kFormat) in.fail("format", kFormat);
  if (in.integer("schema") != RunRecord::kSchema) {
    in.fail("schema", fmt::format("{}, the one this program knows", RunRecord::kSchema));
  }
  RunRecord r;
  r.source = in.text("source");
  r.label = in.text("label");
  for (const json& word : in.list("command", kMaxWords)) {
    r.command.push_back(in.text_of(word, "command"));
  }
  r.status = read_status(in);
  const bool tried = r.status != RunStatus::rejected && r.status != RunStatus::oom;
  r.config = read_config(in, tried);
  const Reader build = in.at("build");
  r.build = {build.text("version"), build.text("commit"), build.text("compiler"),
             build.text("flags"), build.text("libraries")};
  if (!in.member("machine").is_object()) in.fail("machine", "an object");
  r.machine = in.member("machine").dump(-1, ' ', false, json::error_handler_t::replace);
  r.device = in.text("device");
  r.peak_source = in.text("peak_source");
  r.started = in.text("started");
  r.wall_seconds = in.number("wall_seconds");
  r.exit_code = static_cast<int>(in.integer("exit_code", 1 << 16));
  r.reason = in.text("reason");
  r.log_tail = in.text("log_tail");
  read_steps(in.at("steps"), r);
  read_memory(in.at("memory"), r.memory);
  read_optional(in, r);
  return r;
}

}  // namespace stretto

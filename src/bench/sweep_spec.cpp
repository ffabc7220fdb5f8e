#include "bench/sweep_spec.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/log.h"
#include "base/shell_text.h"
#include "base/units.h"
#include "bench/figures.h"
#include "bench/measure.h"
#include "bench/predict.h"
#include "bench/safe_text.h"
#include "config/reader.h"
#include "config/rules.h"
#include "train/launch.h"

namespace stretto {
namespace {

// The words that one value of one key stands for, and where they are in the file, if in any.
struct Choice {
  std::vector<std::string> words;
  std::vector<Place> places;

  void add(const std::string& key, const YamlNode& value);
};

[[noreturn]] void wrong(const YamlNode& node, const std::string& what, const std::string& fix) {
  throw Error(ExitCode::bad_config, fmt::format("{}: {}", node.place.text(), what), fix);
}

const std::string& scalar(const YamlNode& node, const std::string& key) {
  if (!node.is_scalar()) wrong(node, printable(key) + " is not one value", "write key: value");
  return node.text;
}

template <typename Number>
Number number(const YamlNode& node, const std::string& key, Number (*parse)(std::string_view)) {
  const std::string& text = scalar(node, key);
  try {
    return parse(text);
  } catch (const Error& error) {
    wrong(node, fmt::format("{}: {}", key, error.what()), error.hint());
  }
}

double time_limit(const YamlNode& node) {
  const double seconds = number(node, "timeout", parse_seconds);
  if (!(seconds > 0)) wrong(node, "timeout must be positive", "timeout: 10min");
  return seconds;
}

void Choice::add(const std::string& key, const YamlNode& value) {
  // It was read once already, so it is valid.
  words.push_back(override_word(key, scalar(value, key)));
  places.push_back(value.place);
}

Choice base_words(const YamlNode& root) {
  const YamlNode* base = root.find("base");
  if (base == nullptr) return {};
  if (base->is_scalar()) return {{base->text}, {base->place}};
  if (!base->is_sequence())
    wrong(*base, "base is a file, a name, or a list of words", "base: tiny");
  Choice out;
  for (const YamlNode& item : base->items) {
    out.words.push_back(scalar(item, "base"));
    out.places.push_back(item.place);
  }
  return out;
}

std::string short_key(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// Keeps letters, digits and single dots; everything else becomes a dash.
std::string label_part(const std::string& text) {
  std::string out;
  for (const char c : text.substr(text.rfind('/') + 1)) {
    const bool second = c == '.' && out.ends_with('.');
    out += is_safe_name(std::string("x") + c) && !second ? c : '-';
  }
  return out;
}

struct Axis {
  std::vector<Choice> choices;
  std::vector<std::string> labels;
  std::vector<std::string> values;  // as the user wrote them, if labels are made of them

  void name_after(const std::string& key, const std::string& value) {
    values.push_back(value);
    labels.push_back(label_part(short_key(key) + value));
  }
};

// A word that only one axis has needs no key in the label: fp32, selective. Numbers and switches
// keep their key: dp2.
void shorten_labels(std::vector<Axis>& axes) {
  std::map<std::string, int> had_by;  // by word: how many axes have it
  for (const Axis& axis : axes) {
    for (const std::string& value : std::set(axis.values.begin(), axis.values.end())) {
      ++had_by[value];
    }
  }
  for (Axis& axis : axes) {
    for (size_t i = 0; i < axis.values.size(); ++i) {
      const std::string& value = axis.values[i];
      const bool word = !value.empty() && std::isalpha(static_cast<unsigned char>(value[0])) != 0 &&
                        value != "true" && value != "false" && value != "auto";
      if (word && had_by[value] == 1) axis.labels[i] = label_part(value);
    }
  }
}

void append(const Choice& choice, SweepPoint& point) {
  point.words.insert(point.words.end(), choice.words.begin(), choice.words.end());
  point.places.insert(point.places.end(), choice.places.begin(), choice.places.end());
}

void add_product(std::vector<Axis> axes, const Choice& base, std::vector<SweepPoint>& out) {
  shorten_labels(axes);
  size_t count = 1;
  for (const Axis& axis : axes) {
    count *= axis.choices.size();
    if (count + out.size() > kMaxPoints) {
      throw Error(ExitCode::bad_config, fmt::format("the grid has more than {} points", kMaxPoints),
                  "sweep fewer values at a time");
    }
  }
  for (size_t i = 0; i < count; ++i) {
    SweepPoint point;
    append(base, point);
    size_t rest = i;
    std::vector<size_t> digits(axes.size());
    for (size_t a = axes.size(); a-- > 0;) {  // the last axis varies fastest
      digits[a] = rest % axes[a].choices.size();
      rest /= axes[a].choices.size();
    }
    for (size_t a = 0; a < axes.size(); ++a) {
      append(axes[a].choices[digits[a]], point);
      const std::string& part = axes[a].labels[digits[a]];
      if (!part.empty()) point.label += (point.label.empty() ? "" : "_") + part;
    }
    out.push_back(std::move(point));
  }
}

void read_grid(const YamlNode& grid, const Choice& base, std::vector<SweepPoint>& out) {
  if (!grid.is_mapping()) wrong(grid, "grid is not a mapping", "grid: {parallel.tp: [1, 2]}");
  std::vector<Axis> axes;
  for (size_t k = 0; k < grid.keys.size(); ++k) {
    const std::string& key = grid.keys[k].name;
    const YamlNode& values = grid.items[k];
    Axis axis;
    const auto add = [&](const YamlNode& value) {
      axis.choices.emplace_back().add(key, value);
      axis.name_after(key == "model" ? "" : key, value.text);
    };
    if (values.is_sequence()) {
      for (const YamlNode& value : values.items) add(value);
    } else {
      add(values);
    }
    if (axis.choices.empty()) wrong(values, key + " has no values", "list at least one");
    axes.push_back(std::move(axis));
  }
  add_product(axes, base, out);
}

void read_points(const YamlNode& list, const Choice& base, std::vector<SweepPoint>& out) {
  if (!list.is_sequence()) wrong(list, "points is not a list", "points: [{parallel.tp: 2}]");
  for (const YamlNode& item : list.items) {
    if (!item.is_mapping()) wrong(item, "a point is a mapping", "- {name: tp2, parallel.tp: 2}");
    SweepPoint point;
    Choice choice = base;
    for (size_t k = 0; k < item.keys.size(); ++k) {
      const std::string& key = item.keys[k].name;
      if (key == "timeout") {
        point.timeout = time_limit(item.items[k]);
      } else if (key == "name") {
        point.label = scalar(item.items[k], key);
        if (!is_safe_name(point.label)) {
          wrong(item.items[k], "the name holds other characters than letters, digits, . _ -",
                "use letters, digits, single dots, dashes and underscores, 128 at most");
        }
      } else {
        choice.add(key, item.items[k]);
      }
    }
    append(choice, point);
    out.push_back(std::move(point));
  }
}

Axis axis_of(const std::vector<std::string>& values, const std::string& key) {
  Axis axis;
  for (const std::string& value : values) {
    axis.choices.push_back({{key + "=" + value}, {}});
    axis.name_after(key, value);
  }
  return axis;
}

std::vector<std::string> texts(const std::vector<int64_t>& values) {
  std::vector<std::string> out;
  for (const int64_t value : values) out.push_back(fmt::format("{}", value));
  return out;
}

std::vector<int64_t> powers(const std::vector<int64_t>& range, const char* flag) {
  if (range.size() != 2 || range[0] < 0 || range[1] < range[0] || range[1] > 40) {
    throw Error(ExitCode::usage, fmt::format("{} takes LO HI, exponents of two up to 40", flag),
                fmt::format("{} 9 11 stands for 512, 1024 and 2048", flag));
  }
  std::vector<int64_t> out;
  for (int64_t e = range[0]; e <= range[1]; ++e) out.push_back(int64_t{1} << e);
  return out;
}

// 13b.yaml and 13b mean mpt-13b, as in llm-foundry's script, whose flags these are.
std::string model_word(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const bool yaml = name.size() > 5 && name.ends_with(".yaml");
  std::string bare = yaml ? name.substr(0, name.size() - 5) : name;
  const bool size = !bare.empty() && bare[0] >= '0' && bare[0] <= '9';
  return size ? "mpt-" + bare : bare;
}

// Two flags contradict each other: neither may win silently.
[[noreturn]] void contradiction(const std::string& what, const char* fix) {
  throw Error(ExitCode::usage, what, fix);
}

// Computes the keys that depend on others, now that the rest of the point is known. Where numbers
// do not divide evenly, that becomes the point's reason: it is not run with other numbers under its
// label.
void finish_point(SweepPoint& point, const SweepFlags& flags, int64_t batch_tokens, int64_t ranks,
                  int64_t accumulation) {
  const auto add = [&](const char* key, int64_t value) {
    point.words.push_back(fmt::format("{}={}", key, value));
  };
  Config c = load_config(point.words).config;
  const ParallelConfig& p = c.parallel;
  // At least 1; the rules report smaller values later.
  const int64_t replica = std::max<int64_t>(1, p.tp * p.pp);
  const int64_t length = std::max<int64_t>(1, c.seq_len);
  if (ranks > 0 && !flags.dp.empty() && ranks != c.world_size()) {
    contradiction(fmt::format("-g {} with --dp {}: dp {} x tp {} x pp {} are {} ranks", ranks, p.dp,
                              p.dp, p.tp, p.pp, c.world_size()),
                  "leave out -g, or --dp, which then takes what tp and pp leave");
  }
  const bool whole = batch_tokens % length == 0;
  if (batch_tokens > 0 && whole) {
    c.global_batch = batch_tokens / length;
    add("global_batch", c.global_batch);
  }
  if (ranks % replica != 0) {
    point.reason = fmt::format("{} cannot be tp {} x pp {}", counted(ranks, "rank"), p.tp, p.pp);
    return;
  }
  if (ranks > 0 && flags.dp.empty()) {
    c.parallel.dp = ranks / replica;
    add("parallel.dp", p.dp);
  }
  if (!whole) {
    point.reason = fmt::format(
        "{} tokens are {} of {}", batch_tokens,
        batch_tokens < length ? "less than one sequence" : "not a whole number of sequences",
        length);
    return;
  }
  if (accumulation > 0 && !flags.micro_batches.empty()) {
    add("global_batch", c.micro_batch * accumulation * p.dp);
  } else if (accumulation > 0) {
    c.micro_batch = 1 + (c.global_batch - 1) / std::max<int64_t>(1, accumulation * p.dp);
    if (grad_accumulation(c) != accumulation) {
      point.reason =
          fmt::format("{} cannot be {} on each of {}", counted(c.global_batch, "sequence"),
                      counted(accumulation, "micro-batch"), counted(p.dp, "replica"));
      return;
    }
    add("micro_batch", c.micro_batch);
  }
}

}  // namespace

SweepSpec parse_sweep(const YamlNode& root) {
  if (!root.is_mapping()) wrong(root, "a sweep is a mapping", "see configs/sweeps/");
  SweepSpec spec;
  Choice base = base_words(root);
  for (size_t k = 0; k < root.keys.size(); ++k) {
    const std::string& key = root.keys[k].name;
    const YamlNode& value = root.items[k];
    if (key == "set") {
      if (!value.is_mapping()) wrong(value, "set is not a mapping", "set: {train.lr: 1e-3}");
      for (size_t i = 0; i < value.keys.size(); ++i) {
        base.add(value.keys[i].name, value.items[i]);
      }
    } else if (key == "steps") {
      spec.steps = number(value, key, parse_count);
      if (spec.steps < 1 || spec.steps > 1'000'000) {
        wrong(value, "steps must be 1 to 1000000", "steps: 12");
      }
    } else if (key == "seconds") {
      spec.seconds = number(value, key, parse_seconds);
      if (!(spec.seconds >= 0)) wrong(value, "seconds must not be negative", "seconds: 2");
    } else if (key == "timeout") {
      spec.timeout = time_limit(value);
    } else if (key != "base" && key != "grid" && key != "points") {
      throw Error(ExitCode::bad_config,
                  fmt::format("{}: unknown key {}", root.keys[k].place.text(), printable(key)),
                  "a sweep has base, set, grid, points, steps, seconds and timeout");
    }
  }
  if (const YamlNode* grid = root.find("grid")) read_grid(*grid, base, spec.points);
  if (const YamlNode* list = root.find("points")) read_points(*list, base, spec.points);
  if (spec.points.empty()) wrong(root, "the sweep has no points", "add grid: or points:");
  return spec;
}

bool empty(const SweepFlags& f) {
  return f.models.empty() && f.precisions.empty() && f.sequences.empty() && f.batches.empty() &&
         f.ranks.empty() && f.micro_batches.empty() && f.accumulations.empty() && f.dp.empty() &&
         f.tp.empty() && f.pp.empty() && f.zero.empty() && f.checkpointing.empty() && !f.offload;
}

std::vector<SweepPoint> points_of(const SweepFlags& flags) {
  if (flags.models.empty()) {
    throw Error(ExitCode::usage, "a sweep by flags needs -m MODEL", "stretto sweep -m tiny -s 6 7");
  }
  if (!flags.accumulations.empty() && !flags.micro_batches.empty()) {
    if (!flags.batches.empty()) {
      contradiction("-b, --micro-batch and --accum at once: the third follows from the other two",
                    "leave one of them out");
    }
    if (std::count(flags.micro_batches.begin(), flags.micro_batches.end(), "auto") > 0) {
      contradiction("--micro-batch auto with --accum, which says how large it is",
                    "leave one of them out");
    }
  }
  std::vector<Axis> axes(1);
  for (const std::string& model : flags.models) {
    axes[0].choices.push_back({{model_word(model)}, {}});
    axes[0].labels.push_back(label_part(model_word(model)));
  }
  if (!flags.sequences.empty()) {
    Axis axis;
    for (const int64_t s : powers(flags.sequences, "-s")) {
      axis.choices.push_back(
          {{fmt::format("seq_len={}", s), fmt::format("model.positions={}", s)}, {}});
      axis.labels.push_back(fmt::format("s{}", s));
    }
    axes.push_back(std::move(axis));
  }
  const std::pair<const char*, std::vector<std::string>> plain[] = {
      {"precision", flags.precisions},      {"parallel.dp", texts(flags.dp)},
      {"parallel.tp", texts(flags.tp)},     {"parallel.pp", texts(flags.pp)},
      {"parallel.zero", texts(flags.zero)}, {"activation_checkpointing", flags.checkpointing},
      {"micro_batch", flags.micro_batches}};
  for (const auto& [key, values] : plain) {
    if (!values.empty()) axes.push_back(axis_of(values, key));
  }
  std::vector<SweepPoint> grid, points;
  add_product(axes, flags.offload ? Choice{{"activation_offload=true"}, {}} : Choice{}, grid);
  const auto or_none = [](std::vector<int64_t> v) {
    return v.empty() ? std::vector<int64_t>{0} : v;
  };
  const auto batches = flags.batches.empty() ? or_none({}) : powers(flags.batches, "-b");
  for (const SweepPoint& start : grid) {
    for (const int64_t batch : batches) {
      for (const int64_t ranks : or_none(flags.ranks)) {
        for (const int64_t accumulation : or_none(flags.accumulations)) {
          SweepPoint point = start;
          if (batch > 0) point.label += fmt::format("_b{}", batch);
          if (ranks > 0) point.label += fmt::format("_g{}", ranks);
          if (accumulation > 0) point.label += fmt::format("_ga{}", accumulation);
          point.ranks = ranks;
          finish_point(point, flags, batch, ranks, accumulation);
          points.push_back(std::move(point));
        }
      }
    }
  }
  return points;
}

void require_readable(const std::vector<SweepPoint>& points) {
  for (const SweepPoint& point : points) load_config(point.words, point.places);
}

namespace {

// Equal for points that would run the same steps. An invalid point keeps a hash of its own, so that
// a valid one after it is not left out as its twin.
std::string hash_of_run(const Config& config) {
  if (zero_in_effect(config) == config.parallel.zero || !is_valid(config)) {
    return config_hash(config);
  }
  Config plain = config;
  plain.parallel.zero = 0;
  plain.parallel.zero_group = 0;
  return config_hash(plain);
}

}  // namespace

std::vector<PlannedPoint> plan_points(const std::vector<SweepPoint>& points,
                                      const std::string& machine, const std::string& launcher) {
  std::vector<PlannedPoint> planned;
  // Label and hash, by the hash of the run.
  std::map<std::string, std::pair<std::string, std::string>> seen;
  for (const SweepPoint& point : points) {
    PlannedPoint p;
    p.point = point;
    const ResolvedConfig resolved = load_config(point.words, point.places);
    p.config = resolved.config;
    const std::string hash = config_hash(p.config);
    const std::string work = point.reason.empty() ? hash_of_run(p.config) : hash + point.reason;
    const auto [at, first] = seen.emplace(work, std::pair(point.label, hash));
    if (!first) {
      const auto& [twin, its_hash] = at->second;
      if (point.label != twin) {
        spdlog::info("{}: left out, since it is the same as {}{}", point.label, twin,
                     hash == its_hash ? "" : ": with dp 1, ZeRO has nothing to shard");
      }
      continue;
    }
    if (p.point.label.empty()) p.point.label = hash.substr(0, 8);
    const std::string& label = p.point.label;
    const bool cut = label.size() > 100;
    p.id = cut ? label.substr(0, 50) + label.substr(label.size() - 50) : label;
    p.id += "-" + hash.substr(0, 8);
    if (launcher != "threads" && p.config.world_size() > 1) p.id += "-" + launcher;
    try {
      if (!point.reason.empty()) throw Error(ExitCode::bad_config, point.reason);
      require_valid(resolved);
      fit_memory(p.config);
      RunRecord record;
      record.config = p.config;
      record.machine = machine;
      describe_device(record);
      predict_memory(record);
      predict_time(record);
      p.memory = record.memory;
      p.predicted = record.predicted;
    } catch (const Error& error) {
      const bool oom = error.code() == ExitCode::out_of_memory;
      p.status = oom ? RunStatus::oom : RunStatus::rejected;
      p.reason = reason_of(error);
      p.config = resolved.config;
      // A record needs definite and possible numbers; the reason says what was asked for.
      p.config.micro_batch = std::max<int64_t>(1, p.config.micro_batch);
      ParallelConfig& ranks = p.config.parallel;
      for (int64_t* n : {&ranks.dp, &ranks.tp, &ranks.pp}) *n = std::clamp<int64_t>(*n, 1, 1 << 20);
      if (oom) {  // record how much memory it would have needed
        RunRecord record;
        record.config = p.config;
        predict_memory(record);
        p.memory = record.memory;
      }
    }
    planned.push_back(std::move(p));
  }
  return planned;
}

}  // namespace stretto

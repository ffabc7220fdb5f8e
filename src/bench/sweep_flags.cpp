// The points of a sweep that is given by flags.
#include <algorithm>

#include "base/units.h"
#include "bench/figures.h"
#include "bench/sweep_grid.h"
#include "config/reader.h"

namespace stretto {
namespace {

GridAxis axis_of(const std::vector<std::string>& values, const std::string& key) {
  GridAxis axis;
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

void require_consistent(const SweepFlags& flags) {
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
}

std::vector<GridAxis> axes_of(const SweepFlags& flags) {
  std::vector<GridAxis> axes(1);
  for (const std::string& model : flags.models) {
    axes[0].choices.push_back({{model_word(model)}, {}});
    axes[0].labels.push_back(grid_label(model_word(model)));
  }
  if (!flags.sequences.empty()) {
    GridAxis axis;
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
  return axes;
}

}  // namespace

bool empty(const SweepFlags& f) {
  return f.models.empty() && f.precisions.empty() && f.sequences.empty() && f.batches.empty() &&
         f.ranks.empty() && f.micro_batches.empty() && f.accumulations.empty() && f.dp.empty() &&
         f.tp.empty() && f.pp.empty() && f.zero.empty() && f.checkpointing.empty() && !f.offload;
}

std::vector<SweepPoint> points_of(const SweepFlags& flags) {
  require_consistent(flags);
  std::vector<SweepPoint> grid, points;
  append_product(axes_of(flags),
                 flags.offload ? GridChoice{{"activation_offload=true"}, {}} : GridChoice{}, grid);
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

}  // namespace stretto

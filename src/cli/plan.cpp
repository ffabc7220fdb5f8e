// stretto plan: the fastest way to train a model on a cluster, before it is rented.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "bench/safe_text.h"
#include "bench/survey.h"
#include "cli/keep_inputs.h"
#include "cli/page.h"
#include "cli/plan_tools.h"
#include "cli/plan_words.h"
#include "cli/verbs.h"
#include "config/reader.h"
#include "config/schema.h"
#include "plan/advice.h"
#include "plan/local.h"
#include "plan/report.h"
#include "plan/scale.h"

namespace stretto::cli {
namespace {

constexpr const char* kExamples =
    "The fastest way to train a model on a cluster, before it is rented\n\n"
    "Examples:\n"
    "  stretto plan mpt-7b --cluster h100 --gpus 64\n"
    "  stretto plan bloom-176b --cluster jean-zay-a100 --gpus 384 \\\n"
    "      --global-batch 2048 --software megatron-deepspeed-2022 --recompute full \\\n"
    "      --top 5 --explain\n"
    "  stretto plan mpt-70b --scale --tokens 2T --deadline 60d --price 2.5\n"
    "  stretto plan mpt-7b model.heads=64 --gpus 64      a changed model\n"
    "  stretto plan run.yaml --gpus 64           what a run trains, laid out anew\n"
    "  stretto plan tiny --cluster local         this machine, measured first\n"
    "  stretto plan clusters                     what clusters and software are known\n"
    "  stretto plan exam                         accuracy on the published tables\n";

// Why all layouts were rejected, where there is one reason.
std::optional<plan::Reject> only_reason(const plan::Plan& p) {
  const auto some = [](size_t n) { return n > 0; };
  if (std::ranges::count_if(p.rejected, some) != 1) return std::nullopt;
  return static_cast<plan::Reject>(std::ranges::find_if(p.rejected, some) - p.rejected.begin());
}

[[noreturn]] void refuse_empty(const plan::Plan& p, bool scale) {
  std::string what = fmt::format(
      "plan: no layout of {} on {} can run", p.work.model.name,
      scale ? "any of these counts of devices" : counted(p.constraints.devices, "device"));
  if (const auto reason = only_reason(p); reason && !p.nearest) {
    what += ": " + plan::name_of(*reason);
    if (*reason == plan::Reject::batch && p.constraints.micro_batch && !scale) {
      const int64_t step = p.constraints.devices * *p.constraints.micro_batch;
      throw Error(ExitCode::bad_config, what,
                  fmt::format("give --global-batch {}, or another --micro-batch",
                              round_up(p.work.global_batch, step)));
    }
  }
  if (!p.nearest) {
    const bool listed = p.constraints.keep_rejected;  // with this very plan
    throw Error(ExitCode::bad_config, what,
                scale    ? "allow more layouts; for one count of --gpus, --rejected lists why"
                : listed ? "allow more layouts, or other --gpus"
                         : "--rejected lists why; allow more layouts, or other --gpus");
  }
  if (p.nearest->memory.fit == plan::Fit::tight) {
    throw Error(
        ExitCode::out_of_memory, what,
        fmt::format("--tight takes what needs more than {} of the memory", plan::tight_share()));
  }
  const auto change = plan::nearest_fit(p.cluster, p.stack, p.work, p.nearest->layout);
  const bool no_more = scale || p.cluster.time_shared;
  throw Error(ExitCode::out_of_memory, what,
              change    ? fmt::format("it would fit with {}", change->text)
              : no_more ? "take a smaller model"
                        : "add --gpus, or take a smaller model");
}

void run_scale(const PlanOptions& o, const plan::Cluster& cluster, const plan::Stack& stack,
               const plan::Workload& work) {
  plan::ScaleRequest request;
  const auto above_zero = [](const char* option, double value) {
    if (value > 0) return value;
    throw Error(ExitCode::usage, fmt::format("plan: {} {}", option, value), "give more than zero");
  };
  if (!o.tokens.empty()) {
    request.tokens = above_zero("--tokens", static_cast<double>(parse_count(o.tokens)));
  }
  if (!o.deadline.empty()) {
    request.deadline_days = above_zero("--deadline", parse_seconds(o.deadline) / 86400);
  }
  request.budget = o.budget.value_or(0);
  request.price_per_device_hour = o.price.value_or(0);
  if (o.budget && !o.price && cluster.price_per_device_hour == 0) {
    throw Error(ExitCode::usage, "plan: a budget, but no price",
                "add --price, $ per device and hour");
  }
  const plan::ScalePlan scale = plan::scale_plan(cluster, stack, work, constraints_of(o), request);
  if (o.json) {
    print_json(plan::scale_json(scale));
  } else {
    write_page(fmt::format("{} on {}, {} of {} tokens per step, software {}\n\n{}\n{}\n{}\n",
                           work.model.name, cluster.name, counted(work.global_batch, "sequence"),
                           work.seq_len, stack.name, plan::scale_table(scale, output_width()),
                           plan::scale_chart(scale), scale.verdict));
  }
  if (!o.svg.empty()) {
    write_text(o.svg,
               plan::scale_chart_svg(
                   scale, markup_text(fmt::format("{} on {}", work.model.name, cluster.name))));
  }
  if (scale.empty) refuse_empty(*scale.empty, true);
  if (!scale.best && (o.budget || !o.deadline.empty())) throw Answered{ExitCode::regression};
}

// This machine as a cluster: as described by `stretto doctor --json`, or measured now.
plan::Cluster measured_cluster(const PlanOptions& o) {
  std::string text;
  if (o.machine.empty()) {
    spdlog::info(
        "measuring this machine for a few seconds; --machine FILE uses what `stretto "
        "doctor --json > FILE` measured");
    const MachineInfo machine = survey_machine(true);
    warn_if_disturbed(machine, "ask again when they are done");
    text = to_json(machine).dump();
  } else {
    text = read_machine_file(posix_fs(), o.machine);
  }
  const auto figures = plan::read_machine(text);
  if (!figures) {
    throw Error(ExitCode::bad_data,
                fmt::format("'{}' holds no measured rates", printable(o.machine)),
                "write it with `stretto doctor --json`, without --quick");
  }
  const int64_t ranks = o.gpus.value_or(figures->cores);
  return plan::local_cluster(*figures, std::max<int64_t>(1, figures->cores / ranks), ranks);
}

void run_plan(const PlanOptions& asked) {
  check_options(asked);
  std::vector<std::string> inputs = asked.model;
  inputs.insert(inputs.end(), {asked.cluster, asked.software, asked.machine});
  keep_inputs("--svg", asked.svg, {asked.svg}, inputs);
  const bool local = asked.cluster == "local";
  if (asked.scale && local) {
    throw Error(ExitCode::usage,
                "--scale is about more devices, but this machine has a fixed number",
                "name another --cluster, or give --gpus");
  }
  plan::Cluster cluster = local ? measured_cluster(asked) : plan::find_cluster(asked.cluster);
  const ResolvedConfig words = read_words(asked);
  note_replaced_words(asked, words.config);
  if (const auto limit = static_cast<double>(words.config.memory_limit); limit > 0) {
    cluster.memory_bytes = std::min(cluster.memory_bytes, limit);
  }
  const PlanOptions o = with_defaults(asked, words, cluster);
  const plan::Stack stack = plan::find_stack(o.software, cluster);
  const plan::Workload work = workload_of(o, words.config, cluster);
  check_runtime_options(work, words.config, cluster, stack);
  if (o.scale) {
    run_scale(o, cluster, stack, work);
    return;
  }
  const plan::Constraints limits = constraints_of(o);
  plan::check_division(limits);
  const plan::Plan result = plan::make_plan(cluster, stack, work, limits);
  if (o.json) {
    print_json(plan::plan_json(result, o.top));
  } else if (o.csv) {
    fmt::print("{}", for_stdout(plan::plan_csv(result, o.top)));
  } else {
    write_page(plan::plan_text(result, {o.top, o.explain, o.rejected, output_width()}));
  }
  if (result.ranked.empty()) refuse_empty(result, false);
}

void add_layout_options(Command* verb, PlanOptions& o) {
  verb->add_option("--dp", o.dp, "only this many replicas");
  verb->add_option("--tp", o.tp, "only this many tensor ranks");
  verb->add_option("--pp", o.pp, "only this many pipeline stages");
  verb->add_option("--micro-batch", o.micro_batch, "only this micro-batch");
  verb->add_option("--interleave", o.interleave, "only this many model chunks per stage");
  verb->add_option("--schedule", o.schedule, "only 1f1b, interleaved or zero_bubble")
      ->offers({"1f1b", "interleaved", "zero_bubble"});
  verb->add_option("--zero", o.zero, "only this ZeRO stage")
      ->offers(find_key("parallel.zero")->words);
  verb->add_option("--recompute", o.recompute, "only none, gelu, selective or full")
      ->offers(find_key("activation_checkpointing")->words);
  verb->add_flag("--tight", o.tight,
                 fmt::format("also rank layouts above {} of the memory", plan::tight_share()));
}

void add_output_options(Command* verb, PlanOptions& o) {
  verb->add_option("--top", o.top, "layouts to show (10)")->between(1, 1e6);
  verb->add_flag("--explain", o.explain, "the tree of terms of each layout shown");
  verb->add_flag("--rejected", o.rejected, "list what was rejected and why");
  verb->add_flag("--json", o.json, "for machines");
  verb->add_flag("--csv", o.csv, "for spreadsheets");
}

void add_scale_options(Command* verb, PlanOptions& o) {
  verb->add_flag(
      "--scale", o.scale,
      "1,000 to 100,000 devices (from 64 with a deadline or a budget): goodput, tokens per day");
  verb->add_option("--tokens", o.tokens, "tokens of the whole run, such as 2T");
  verb->add_option("--deadline", o.deadline, "the run must end within, such as 60d");
  verb->add_option("--budget", o.budget, "the run must cost at most, in $");
  verb->add_option("--price", o.price, "$ per device and hour");
  verb->add_option("--svg", o.svg, "write the chart of --scale to this file")->file();
}

}  // namespace

void add_plan(Command& app) {
  Command* verb = app.add_subcommand("plan", kExamples);
  auto o = std::make_shared<PlanOptions>();
  verb->add_option(
          "model", o->model,
          "a model's name (stretto models), or what `stretto train` takes: files, key=value "
          "words (its layout, micro-batch and recomputation are what is planned; options below "
          "say more)")
      ->settings();
  verb->add_option("--cluster", o->cluster, "a known cluster or a .yaml file (h100)")
      ->file()
      ->offers(plan::cluster_names());
  verb->add_option("--software", o->software,
                   "a known software profile, or a .yaml file of `calibrate --write` (stretto)")
      ->file()
      ->offers(plan::stack_names());
  verb->add_option("--gpus", o->gpus, "devices (8; local: one rank per core)");
  verb->add_option("--global-batch", o->global_batch,
                   "sequences per step (about 4M tokens; local: 8 a rank)");
  verb->add_option("--seq-len", o->seq_len, "tokens per sequence (the model's)");
  verb->add_option("--precision", o->precision, "fp32, amp_bf16, bf16, amp_fp16 or amp_fp8")
      ->offers(find_key("precision")->words);
  verb->add_option("--machine", o->machine, "local: what `stretto doctor --json` wrote")->file();
  add_layout_options(verb, *o);
  add_output_options(verb, *o);
  add_scale_options(verb, *o);

  add_plan_tools(*verb, [o, verb] {
    if (const std::vector<std::string> words = verb->given(); !words.empty()) {
      throw Error(ExitCode::usage,
                  fmt::format("plan: words of plan itself would be ignored here: {}",
                              printable(fmt::format("{}", fmt::join(words, ", ")))),
                  "leave them out; `stretto plan VERB --help` shows what the verb takes");
    }
    o->done = true;
  });

  verb->callback([o] {
    if (o->done) return;  // a subverb has run instead
    if (o->model.empty()) {
      throw Error(ExitCode::usage, "plan: no model named",
                  "stretto plan mpt-7b --cluster h100 --gpus 64");
    }
    run_plan(*o);
  });
}

}  // namespace stretto::cli

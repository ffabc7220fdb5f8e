#include "cli/verbs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/terminal.h"

namespace stretto::cli {

void print_json(const nlohmann::json& value, int indent) {
  const auto text = [&](bool ascii) {
    return value.dump(indent, ' ', ascii, nlohmann::json::error_handler_t::replace);
  };
  const std::string plain = text(false);
  // Where the text holds what would steer a terminal, it is escaped as JSON does it.
  fmt::print("{}\n", for_stdout(plain) == plain ? plain : text(true));
}

void add_verbs(Command& app) {
  add_train(app);
  add_generate(app);
  add_eval(app);
  add_checkpoint(app);
  add_exchange(app);
  add_verify(app);
  add_slurm(app);
  add_data(app);
  add_tokenizer(app);
  add_bench(app);
  add_sweep(app);
  add_collect(app);
  add_report(app);
  add_compare(app);
  add_tune(app);
  add_doctor(app);
  add_flops(app);
  add_reference(app);
  add_plan(app);
  add_config(app);
  add_models(app);
  add_completion(app);
  add_version(app);
}

}  // namespace stretto::cli

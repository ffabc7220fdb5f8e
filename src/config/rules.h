// Every constraint between values, as a named rule whose message includes the fix. Rules are pure:
// they depend on a Config, never on the machine.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/reader.h"

namespace stretto {

enum class Severity { error, advice };

struct Finding {
  Severity severity = Severity::error;
  std::string rule;     // heads-tp
  std::string key;      // the value to look at first: parallel.tp
  std::string message;  // "does not divide model.heads: 8"; other keys appear as "key: value"
  std::string fix;      // "use 1, 2, 4 or 8"
};

// Everything that is wrong (errors first) or could be better (advice); empty if there is nothing.
std::vector<Finding> check_config(const Config& config);
bool is_valid(const Config& config);  // no finding is an error
// Whether these are of the rules that come first: others are looked at where those hold.
bool leave_rules_out(const std::vector<Finding>& findings);

// Throws Error (bad_config) with all errors and their places. Advice does not throw.
void require_valid(const ResolvedConfig& resolved);
void require_valid(const Config& config);  // without places

// "place  key: value", then the message with the places of other keys. The fix is not included.
std::string describe(const Finding& finding, const ResolvedConfig& resolved);

std::vector<std::string> rule_names();

}  // namespace stretto

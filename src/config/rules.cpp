#include "config/rules.h"

#include <algorithm>

#include "base/error.h"
#include "config/problems.h"
#include "config/rule_set.h"
#include "config/schema.h"
#include "config/suggest.h"

namespace stretto {
namespace {

std::vector<std::span<const Rule>> all_rules() {
  return {size_rules(), model_rules(), parallel_rules(), batch_rules(), train_rules()};
}

constexpr const char* kRangeRule = "range";

// Checks the range of each value, which the table of keys states. After that all rules may divide.
void check_ranges(const Config& config, std::vector<Finding>& out) {
  Report report(out, Severity::error, kRangeRule);
  for (const Key& key : config_keys()) {
    const Value value = key.get(config);
    if (key.type == ValueType::word) {
      if (key.name.starts_with("model.")) continue;  // the rule `engine` knows more kinds
      const std::string& word = std::get<std::string>(value);
      if (std::find(key.words.begin(), key.words.end(), word) == key.words.end()) {
        report.add(key.name, "is not a known word", "use " + join_or(key.words));
      }
      continue;
    }
    double number = 0;
    if (const auto* count = std::get_if<int64_t>(&value)) {
      if (key.special == "auto" && *count == kAuto) continue;
      number = static_cast<double>(*count);
    } else if (const auto* real = std::get_if<double>(&value)) {
      number = *real;
    } else {
      continue;
    }
    if (number >= key.least && number <= key.most) continue;
    const bool low = number < key.least;
    report.add(key.name,
               low ? fmt::format("is below the least value, {:.12g}", key.least)
                   : fmt::format("is above the limit, {:.12g}", key.most),
               fmt::format("use {:.12g} to {:.12g}{}", key.least, key.most,
                           key.unit.empty() ? "" : " " + key.unit));
  }
}

}  // namespace

std::string shown(const Config& config, const char* key) {
  return fmt::format("{}: {}", key, render_key(key, config));
}

std::string divisors_near(int64_t n, int64_t wanted) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    divisors.push_back(d);
    if (d != n / d) divisors.push_back(n / d);
  }
  constexpr size_t kShown = 6;
  std::sort(divisors.begin(), divisors.end(), [wanted](int64_t a, int64_t b) {
    const int64_t da = std::abs(a - wanted), db = std::abs(b - wanted);
    return da != db ? da < db : a < b;
  });
  divisors.resize(std::min(divisors.size(), kShown));
  std::sort(divisors.begin(), divisors.end());
  std::vector<std::string> words;
  for (const int64_t d : divisors) words.push_back(fmt::format("{}", d));
  return join_or(words);
}

std::string multiples_near(int64_t n, int64_t step) {
  const int64_t below = n / step * step;
  return below > 0 ? fmt::format("{} or {}", below, below + step) : fmt::format("{}", step);
}

std::vector<Finding> check_config(const Config& config) {
  std::vector<Finding> findings;
  check_ranges(config, findings);
  if (!findings.empty()) return findings;
  for (const std::span<const Rule> rules : all_rules()) {
    for (const Rule& rule : rules) {
      Report report(findings, rule.severity, rule.name);
      rule.check(config, report);
    }
    if (rules.data() == size_rules().data() && !findings.empty()) return findings;
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return findings;
}

bool leave_rules_out(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) {
    return f.rule == kRangeRule ||
           std::ranges::any_of(size_rules(), [&](const Rule& rule) { return f.rule == rule.name; });
  });
}

bool is_valid(const Config& config) {
  const std::vector<Finding> findings = check_config(config);
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& f) { return f.severity == Severity::error; });
}

std::string describe(const Finding& finding, const ResolvedConfig& resolved) {
  const bool places = !resolved.origins.empty();
  std::string text = finding.message;
  for (const Origin& origin : resolved.origins) {
    if (origin.place.source == Source::default_value) continue;
    const std::string mention = shown(resolved.config, origin.key.c_str());
    const size_t at = text.find(mention);
    const bool whole = at != std::string::npos && (at == 0 || text[at - 1] == ' ');
    if (whole) text.insert(at + mention.size(), fmt::format(" ({})", origin.place.line_text()));
  }
  const std::string head = shown(resolved.config, finding.key.c_str());
  if (!places) return fmt::format("{}\n    {}", head, text);
  return fmt::format("{}  {}\n    {}", resolved.origin_of(finding.key).text(), head, text);
}

void require_valid(const ResolvedConfig& resolved) {
  Problems problems;
  for (const Finding& finding : check_config(resolved.config)) {
    if (finding.severity == Severity::error) problems.add(describe(finding, resolved), finding.fix);
  }
  problems.throw_if_any();
}

void require_valid(const Config& config) { require_valid(ResolvedConfig{config, {}}); }

std::vector<std::string> rule_names() {
  std::vector<std::string> names = {kRangeRule};
  for (const std::span<const Rule> rules : all_rules()) {
    for (const Rule& rule : rules) names.emplace_back(rule.name);
  }
  return names;
}

}  // namespace stretto

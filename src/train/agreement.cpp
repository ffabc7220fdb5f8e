#include "train/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/digest.h"
#include "config/schema.h"
#include "train/gather.h"

namespace stretto {
namespace {

bool tells_a_machine_its_share(const std::string& key) {
  return key == "threads" || key == "memory_limit";
}

bool names_a_file(const std::string& key) {
  return key == "output" || key == "data.path" || key == "data.eval_path" ||
         key == "data.tokenizer";
}

Fact fact_of(const char* name, const DataMark& mark, const TokenSource& source) {
  return {
      name,
      fmt::format("{} with digest {}", counted(mark.tokens, "token"), mark.sample.substr(0, 12)),
      fmt::format("({})", source.name())};
}

// What a rank tells about itself: its machine and its facts.
struct Account {
  std::string host;
  std::vector<Fact> facts;
};

// Fields end with a zero byte, which is in none of them.
std::string text_of(const Account& account) {
  std::string text = account.host + '\0';
  for (const Fact& fact : account.facts) {
    for (const std::string& field : {fact.name, fact.value, fact.note}) text += field + '\0';
  }
  return text;
}

Account account_in(std::string_view text) {
  const auto next = [&] {
    const size_t end = std::min(text.find('\0'), text.size());
    std::string field(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return field;
  };
  Account account;
  account.host = next();
  while (!text.empty()) {
    Fact fact;
    fact.name = next();
    fact.value = next();
    fact.note = next();
    account.facts.push_back(std::move(fact));
  }
  return account;
}

const Fact* find(const std::vector<Fact>& facts, const std::string& name) {
  const auto found =
      std::find_if(facts.begin(), facts.end(), [&](const Fact& fact) { return fact.name == name; });
  return found == facts.end() ? nullptr : &*found;
}

// Names of the facts that differ. Programs of other versions may have more or fewer facts.
std::vector<std::string> differing(const std::vector<Fact>& a, const std::vector<Fact>& b) {
  std::vector<std::string> names;
  for (const Fact& fact : a) {
    const Fact* other = find(b, fact.name);
    if (other == nullptr || other->value != fact.value) names.push_back(fact.name);
  }
  for (const Fact& fact : b) {
    if (find(a, fact.name) == nullptr) names.push_back(fact.name);
  }
  return names;
}

std::string shown(const Account& account, const std::string& name, int rank) {
  const Fact* fact = find(account.facts, name);
  std::string value = fact == nullptr ? "unknown" : fact->value.empty() ? "empty" : fact->value;
  if (fact != nullptr && !fact->note.empty()) value += " " + fact->note;
  return fmt::format("{} on rank {} ({})", printable(value), rank, printable(account.host));
}

Error disagreement(const std::vector<Account>& ranks) {
  std::vector<int> others;
  for (int r = 1; r < static_cast<int>(ranks.size()); ++r) {
    const bool differs = !differing(ranks[0].facts, ranks[static_cast<size_t>(r)].facts).empty();
    if (differs) others.push_back(r);
  }
  const Account& other = ranks[static_cast<size_t>(others.at(0))];
  const std::vector<std::string> names = differing(ranks[0].facts, other.facts);
  std::string what = fmt::format("the ranks of this run differ: {} is {}, but {}", names.at(0),
                                 shown(other, names[0], others[0]), shown(ranks[0], names[0], 0));
  if (names.size() > 1) what += fmt::format("; {} more differ", names.size() - 1);
  others.erase(others.begin());
  if (!others.empty()) {
    what += fmt::format("; rank{} {} differ{} from rank 0 as well", others.size() == 1 ? "" : "s",
                        fmt::join(others, ", "), others.size() == 1 ? "s" : "");
  }
  return {ExitCode::bad_config, what,
          names[0] == "micro_batch"
              ? "give micro_batch as a number: auto goes by the memory of each machine"
              : "start all ranks with the same program, configuration and data"};
}

}  // namespace

std::vector<Fact> config_facts(const Config& config) {
  Config effective = config;
  effective.seq_len = config.sequence_length();
  std::vector<Fact> facts;
  for (const Key& key : config_keys()) {
    if (tells_a_machine_its_share(key.name)) continue;
    std::string value = render_value(key, key.get(effective));
    if (names_a_file(key.name)) value = value.empty() ? "not set" : "set";
    facts.push_back({key.name, std::move(value)});
  }
  return facts;
}

std::vector<Fact> data_facts(const RunData& data) {
  std::vector<Fact> facts = {fact_of("data.path", data.mark, *data.source)};
  if (data.eval_source) {
    facts.push_back(fact_of("data.eval_path", data.eval_mark, *data.eval_source));
  }
  return facts;
}

void require_agreement(Comm& world, std::span<const Fact> facts) {
  if (world.size() == 1) return;
  std::string compared;
  for (const Fact& fact : facts) compared += fact.name + '\0' + fact.value + '\0';
  const Digest mine = digest_of(compared);
  std::vector<Digest> all(static_cast<size_t>(world.size()));
  // Sent as 32-bit numbers, because Comm has no larger integer type.
  world.all_gather(Tensor(all.data(), DType::i32, {world.size(), 4}),
                   ConstTensor(&mine, DType::i32, {4}));
  const auto as_mine = [&](const Digest& digest) { return digest == mine; };
  if (std::all_of(all.begin(), all.end(), as_mine)) return;
  const Account account = {host_name(), {facts.begin(), facts.end()}};
  std::vector<Account> ranks;
  for (const std::string& text : gather_texts(world, text_of(account))) {
    ranks.push_back(account_in(text));
  }
  std::optional<Error> error;
  if (world.rank() == 0) error = disagreement(ranks);
  throw_together(world, error);
}

}  // namespace stretto

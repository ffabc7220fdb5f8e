// Where a value comes from is what `config show` and messages name: nobody looks for it elsewhere.
#include "config/registry.h"
#include "config/schema.h"
#include "config/support.h"

namespace stretto::test {
namespace {

// What says "default" has the default, what says "model tiny" has that model's value. Whatever
// differs must name what it was derived from.
TEST(Origin, OfEveryValueIsWhereItIsWritten) {
  const std::vector<std::string> cases[] = {
      {"tiny"},
      {"bloom-176b"},
      {"tiny", "seq_len=64"},
      {"tiny", "model.hidden=64"},
      {"tiny", "model.position_kind=alibi"},
      {"mpt-7b", "model.position_kind=learned"},
      {"mpt-7b", "seq_len=4096", "parallel.partition=[16,16]"},
      {"model.layers=1", "model.hidden=8", "model.heads=1", "model.vocab=8", "seq_len=8"},
      {"model.layers=1", "model.hidden=8", "model.heads=1", "model.vocab=8", "seq_len=8",
       "model.position_kind=alibi"},
  };
  for (const std::vector<std::string>& words : cases) {
    const ResolvedConfig resolved = load_config(words);
    Config registry;
    const bool known = words[0].find('=') == std::string::npos;
    if (known) registry.model = find_model(words[0]);
    for (const Key& key : config_keys()) {
      const Place& origin = resolved.origin_of(key.name);
      const Value value = key.get(resolved.config);
      if (origin.source == Source::default_value) {
        EXPECT_EQ(value, key.get(Config{})) << words.back() << ": " << key.name;
      } else if (origin.source == Source::registry) {
        EXPECT_TRUE(known) << words.back() << ": " << key.name;
        EXPECT_EQ(value, key.get(registry)) << words.back() << ": " << key.name;
      } else if (origin.source == Source::derived) {
        EXPECT_FALSE(origin.file.empty()) << words.back() << ": " << key.name;
      }
    }
  }
}

}  // namespace
}  // namespace stretto::test

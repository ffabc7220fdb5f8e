#include "cli/candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "account/parameters.h"
#include "base/units.h"
#include "cli/key_text.h"
#include "config/reader.h"
#include "config/registry.h"
#include "config/schema.h"

namespace stretto::cli {
namespace {

// Where in the command line the words before the last one lead.
class Reading {
 public:
  Reading(const Outline& root, const std::vector<std::string>& words) : root_(root), verb_(&root) {
    for (size_t i = 0; i + 1 < words.size(); ++i) step(words[i]);
    word_ = words.empty() ? "" : words.back();
  }

  Completion candidates() {
    if (!plain_ && word_.starts_with('-')) {
      const size_t equals = word_.find('=');
      if (equals == std::string::npos) {
        offer_options();
      } else if (const OutlineOption* option = find(word_.substr(0, equals)); option != nullptr) {
        offer_values(option->values, word_.substr(0, equals + 1));
      }
    } else if (open_ != nullptr) {
      offer_values(open_->values, "");
    } else {
      offer_positional();
    }
    return std::move(out_);
  }

 private:
  void step(const std::string& word) {
    if (!plain_ && word == "--") {
      plain_ = true;
      open_ = nullptr;
    } else if (!plain_ && word.size() > 1 && word[0] == '-') {
      open_ = find(word);
      left_ = open_ == nullptr ? 0 : open_->most;
      if (left_ == 0) open_ = nullptr;
      values_.clear();
    } else if (open_ != nullptr) {
      values_.push_back(word);
      if (--left_ == 0) open_ = nullptr;
    } else if (const Outline* below = verb_called(word); below != nullptr) {
      verb_ = below;
    } else {
      positionals_.push_back(word);
    }
  }

  const Outline* verb_called(const std::string& word) const {
    if (plain_ || !positionals_.empty()) return nullptr;
    const auto at = std::find_if(verb_->verbs.begin(), verb_->verbs.end(),
                                 [&](const Outline& verb) { return verb.name == word; });
    return at == verb_->verbs.end() ? nullptr : &*at;
  }

  // The verb's own options, and those of any verb.
  template <class Use>
  void each_option(const Use& use) const {
    for (const OutlineOption& option : verb_->options) use(option);
    if (verb_ == &root_) return;
    for (const OutlineOption& option : root_.options) {
      if (option.names.back() != "--version") use(option);
    }
  }

  const OutlineOption* find(const std::string& name) const {
    const OutlineOption* found = nullptr;
    each_option([&](const OutlineOption& option) {
      const auto& names = option.names;
      const bool called = std::find(names.begin(), names.end(), name) != names.end();
      if (!option.positional && called) found = &option;
    });
    return found;
  }

  void offer(const std::string& word, const std::string& about) {
    if (word.starts_with(word_)) out_.words.push_back({word, about});
  }

  // By their long names, which explain themselves; a short one is complete as it stands.
  void offer_options() {
    each_option([&](const OutlineOption& option) {
      if (!option.positional) offer(option.names.back(), option.help);
    });
  }

  // `before`: what of the word is no part of the value, such as "--launcher=".
  void offer_values(const Values& values, const std::string& before) {
    out_.files = values.files;
    if (values.settings) offer_settings(before);
    if (!values.known) return;
    for (const Candidate& known : values.known()) offer(before + known.word, known.about);
  }

  void offer_positional() {
    if (!plain_ && positionals_.empty()) {
      for (const Outline& verb : verb_->verbs) offer(verb.name, verb.first_line());
    }
    size_t before = positionals_.size();
    for (const OutlineOption& option : verb_->options) {
      if (!option.positional) continue;
      if (before < static_cast<size_t>(option.most)) return offer_values(option.values, "");
      before -= static_cast<size_t>(option.most);
    }
    if (!plain_ && out_.words.empty() && word_.empty()) offer_options();
  }

  void offer_settings(const std::string& before) {
    const std::string part = word_.substr(before.size());
    const size_t equals = part.find('=');
    if (equals != std::string::npos) {
      const std::string key = part.substr(0, equals);
      return offer_key_values(key, before + key + "=");
    }
    const std::vector<std::string>& given = open_ == nullptr ? positionals_ : values_;
    if (std::all_of(given.begin(), given.end(), is_override)) {
      for (const Candidate& model : known_models()) offer(before + model.word, model.about);
    }
    offer_keys(before, part);
  }

  // Like directories: below what has been written of the name, up to the next dot.
  void offer_keys(const std::string& before, const std::string& part) {
    std::string group;
    offer(before + "model=", "a model of the registry");
    for (const Key& key : config_keys()) {
      if (!key.name.starts_with(part)) continue;
      const size_t dot = key.name.find('.', part.size());
      if (dot == std::string::npos) {
        offer(before + key.name + "=", fmt::format("{} [{}]", key.doc, values_of(key)));
      } else if (key.name.substr(0, dot + 1) != group) {
        group = key.name.substr(0, dot + 1);
        const auto in_group = [&](const Key& other) { return other.name.starts_with(group); };
        const auto keys = std::count_if(config_keys().begin(), config_keys().end(), in_group);
        offer(before + group, counted(keys, "key"));
      }
    }
  }

  void offer_key_values(const std::string& name, const std::string& before) {
    out_.files = Files::none;
    if (name == "model") {
      for (const Candidate& model : known_models()) offer(before + model.word, model.about);
    }
    const Key* key = find_key(name);
    if (key == nullptr) return;
    if (key->type == ValueType::text) out_.files = Files::any;
    for (const std::string& word : key->words) offer(before + word, "");
    if (key->type == ValueType::flag) {
      offer(before + "true", "");
      offer(before + "false", "");
    } else if (key->type != ValueType::text && !key->special.empty()) {
      offer(before + key->special, "");
    }
  }

  const Outline& root_;
  const Outline* verb_;
  const OutlineOption* open_ = nullptr;            // waits for values,
  int left_ = 0;                                   // this many at most
  bool plain_ = false;                             // behind --, words are no options
  std::vector<std::string> positionals_, values_;  // values: of open_, so far
  std::string word_;
  Completion out_;
};

}  // namespace

Completion complete(const Outline& root, const std::vector<std::string>& words) {
  return Reading(root, words).candidates();
}

void print_completion(const Outline& root, const std::vector<std::string>& words) noexcept {
  try {
    const Completion answer = complete(root, words);
    constexpr const char* kFiles[] = {"words", "files", "directories"};
    std::string text = fmt::format("{}\n", kFiles[static_cast<int>(answer.files)]);
    for (const auto& [word, about] : answer.words) {
      text += about.empty() ? fmt::format("{}\n", word) : fmt::format("{}\t{}\n", word, about);
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
  } catch (...) {
    return;
  }
}

std::vector<Candidate> known_models() {
  std::vector<Candidate> models;
  for (const RegistryModel& model : registry_models()) {
    const auto parameters = static_cast<double>(parameter_count(model.shape));
    models.push_back({model.shape.name, fmt::format("{} parameters", format_count(parameters))});
  }
  return models;
}

}  // namespace stretto::cli

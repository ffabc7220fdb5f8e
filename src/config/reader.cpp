#include "config/reader.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/strict_json.h"
#include "config/foreign_names.h"
#include "config/interpolate.h"
#include "config/problems.h"
#include "config/registry.h"
#include "config/schema.h"
#include "config/suggest.h"

namespace stretto {
namespace {

bool looks_like_path(const std::string& word) {
  struct stat info {};
  return word.find('/') != std::string::npos || word.ends_with(".yaml") || word.ends_with(".yml") ||
         word.ends_with(".json") || ::stat(word.c_str(), &info) == 0;
}

YamlNode empty_mapping() {
  YamlNode node;
  node.kind = YamlNode::Kind::mapping;
  return node;
}

// Lists, mappings and quoted texts in an override are read as YAML; everything else is taken
// literally.
bool begins_yaml(const std::string& text) {
  return !text.empty() && std::string_view("[{\"'").find(text[0]) != std::string_view::npos;
}

// "a.b.c" as a file has it: "a: {b: {c: VALUE}}".
std::string nested(std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return fmt::format("{}: VALUE", path);
  return fmt::format("{}: {{{}}}", path.substr(0, dot), nested(path.substr(dot + 1)));
}

std::string hint_for_unknown(const std::string& path) {
  if (find_key(path) != nullptr) {  // a dotted key inside a file
    return fmt::format("write it as {}, or on the command line", nested(path));
  }
  const std::string missing = not_supported(path);
  if (!missing.empty()) {
    return fmt::format("not supported: {}; see README, Known limits", missing);
  }
  const std::string known = key_called(path);
  if (!known.empty()) return fmt::format("did you mean '{}'?", known);
  std::vector<std::string> names = {"variables"};
  std::string last_section;
  for (const Key& key : config_keys()) {
    names.push_back(key.name);
    const std::string section = key.name.substr(0, key.name.find('.'));
    if (section != key.name && section != last_section) names.push_back(last_section = section);
  }
  return did_you_mean(path, names, "`stretto config keys` lists every key");
}

// Whether keys have this path in front, as "train" or "train.loss_scale".
bool is_section(const std::string& path) {
  return std::any_of(config_keys().begin(), config_keys().end(),
                     [&](const Key& key) { return key.name.starts_with(path + "."); });
}

std::string shown_value(const YamlNode& node) {
  if (node.is_scalar()) return printable(node.text.substr(0, 60));
  return node.is_mapping() ? "{...}" : node.is_sequence() ? "[...]" : "";
}

// Fills the Config from the tree, key by key, and collects every problem.
class Filler {
 public:
  explicit Filler(ResolvedConfig& out) : out_(out) {}

  void fill(const YamlNode& node, const std::string& prefix) {
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const std::string path = prefix + node.keys[i].name;
      const YamlNode& value = node.items[i];
      const bool one_part = node.keys[i].name.find('.') == std::string::npos;
      const Key* key = one_part ? find_key(path) : nullptr;
      if (key != nullptr) {
        fill_key(*key, value);
      } else if (one_part && is_section(path)) {
        fill_section(path, value);
      } else if (path != "variables") {
        problems_.add(fmt::format("{}  {}: unknown key", node.keys[i].place.text(),
                                  printable(path.substr(0, 80))),
                      hint_for_unknown(path));
      }
    }
  }

  Problems& problems() { return problems_; }

 private:
  void fill_section(const std::string& path, const YamlNode& value) {
    if (value.is_mapping()) return fill(value, path + ".");
    if (value.kind == YamlNode::Kind::null) return;
    problems_.add(fmt::format("{}  {}: {}\n    is a group of keys, not a value", value.place.text(),
                              path, shown_value(value)),
                  fmt::format("write its keys below it; `stretto config show` shows them"));
  }

  void fill_key(const Key& key, const YamlNode& value) {
    try {
      key.set(out_.config, parse_value(key, value));
    } catch (const Error& error) {
      problems_.add(fmt::format("{}  {}: {}\n    {}", value.place.text(), key.name,
                                shown_value(value), error.what()),
                    error.hint());
    }
    for (Origin& origin : out_.origins) {
      if (origin.key == key.name) origin.place = value.place;
    }
  }

  ResolvedConfig& out_;
  Problems problems_;
};

bool names_no_model(YamlNode& root) {
  const YamlNode* model = root.find("model");
  return model == nullptr || model->kind == YamlNode::Kind::null;
}

// Replaces `model` by the fields of the registry's model, changed by the fields that were written.
// With an unknown name the model is the user's own, if its sizes are written.
bool expand_model(YamlNode& root) {
  YamlNode* model = root.find("model");
  YamlNode written = *model;
  if (written.is_scalar()) {
    written = empty_mapping();
    written.set("name", *model);
  }
  const YamlNode* name = written.find("name");
  if (!written.is_mapping() || name == nullptr) return false;
  const YamlNode value = Interpolator(root).expand(*name);
  const RegistryModel* known = lookup_model(value.text);
  if (known == nullptr) {
    if (written.find("layers") != nullptr) return false;
    throw Error(ExitCode::bad_config,
                fmt::format("{}  model: {}\n    no model has this name", value.place.text(),
                            shown_value(value)),
                did_you_mean(value.text, model_names(),
                             "`stretto models` lists the names; or give model.layers, hidden, "
                             "heads and vocab"));
  }
  Config base;
  base.model = known->shape;
  YamlNode fields = empty_mapping();
  const Place place{Source::registry, "model " + known->shape.name, 0, 0};
  for (const Key& key : config_keys()) {
    if (key.name.rfind("model.", 0) != 0) continue;
    fields.set(key.name.substr(6), yaml_scalar(render_value(key, key.get(base)), place));
  }
  // Without a feed-forward width of its own, a changed hidden size determines it.
  if (written.find("hidden") != nullptr && written.find("ffn") == nullptr) {
    fields.set("ffn", yaml_scalar("0", {Source::derived, "4 x model.hidden", 0, 0}));
  }
  merge_yaml(fields, written, "model");
  *model = std::move(fields);
  return true;
}

// Sets values that follow from others. A registry model with a changed shape gets another name, so
// that no record claims to be of the original; positions follow the sequence length and do not
// count as a change.
void derive(ResolvedConfig& out, bool from_registry, Problems& problems) {
  ModelShape& model = out.config.model;
  const auto derived = [&](std::string_view key, const std::string& from) {
    for (Origin& origin : out.origins) {
      if (origin.key == key) origin.place = {Source::derived, from, 0, 0};
    }
  };
  if (!from_registry) {
    for (const char* name : {"model.layers", "model.hidden", "model.heads", "model.vocab"}) {
      if (out.origin_of(name).source == Source::default_value) {
        problems.add(fmt::format("{} is not given", name),
                     "give it, or start from a registry model with model.name");
      }
    }
  }
  if (model.ffn == 0 && model.hidden > 0) {
    // One that is out of range is refused itself, and once.
    const auto most = static_cast<int64_t>(find_key("model.hidden")->most);
    model.ffn = 4 * std::min(model.hidden, most);
    derived("model.ffn", "4 x model.hidden");
  }
  // ALiBi as an override also selects MPT's GELU; models of the registry state their own.
  if (model.position_kind == Positions::alibi &&
      out.origin_of("model.position_kind").source > Source::registry &&
      out.origin_of("model.gelu").source <= Source::registry) {
    model.mlp = Mlp::gelu;
    derived("model.gelu", "model.position_kind");
  }
  if (model.positions == 0 && out.origin_of("model.positions").source == Source::default_value) {
    if (out.config.seq_len == 0) {
      problems.add("neither seq_len nor model.positions is given", "give seq_len");
    }
    model.positions = out.config.seq_len;
    derived("model.positions", "seq_len");
  }
  if (out.origin_of("seq_len").source == Source::default_value) {
    out.config.seq_len = model.positions;
    derived("seq_len", "model.positions");
  }
  if (from_registry) {
    const RegistryModel* known = lookup_model(model.name);
    if (known == nullptr) return;
    ModelShape same = known->shape;
    same.positions = model.positions;
    if (same != model) model.name += "-custom";
  }
}

}  // namespace

const Place& ResolvedConfig::origin_of(std::string_view key) const {
  static const Place none;
  for (const Origin& origin : origins) {
    if (origin.key == key) return origin.place;
  }
  return none;
}

void merge_yaml(YamlNode& base, const YamlNode& over, const std::string& path) {
  for (size_t i = 0; i < over.keys.size(); ++i) {
    const std::string& name = over.keys[i].name;
    const YamlNode& value = over.items[i];
    YamlNode* old = base.find(name);
    if (old != nullptr && old->is_scalar() && value.is_mapping() && name == "model") {
      YamlNode named = empty_mapping();  // model: NAME, then model.layers=4
      named.set("name", *old);
      *old = std::move(named);
    }
    const std::string here = path.empty() ? name : path + "." + name;
    if (old != nullptr && old->is_mapping() && value.is_mapping()) {
      merge_yaml(*old, value, here);
    } else if (old != nullptr && old->kind != YamlNode::Kind::null && value.is_mapping() &&
               is_section(here)) {
      // `train: 5` must not vanish under train.steps=1: it stays in the tree and is refused.
      continue;
    } else if (old != nullptr) {
      *old = value;
    } else {
      base.keys.push_back(over.keys[i]);
      base.items.push_back(value);
    }
  }
}

bool is_override(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  for (const char c : word.substr(0, equals)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-';
    if (!plain) return false;
  }
  return true;
}

YamlNode override_tree(std::string_view word, const Place& place) {
  require_text(word, place.text());
  const size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const std::string text(word.substr(equals + 1));
  YamlNode node = yaml_scalar(text, place);
  if (begins_yaml(text)) {
    node = parse_yaml(text, place.text());
    node.place = place;
    for (YamlNode& item : node.items) item.place = place;
    for (YamlKey& name : node.keys) name.place = place;
  }
  std::vector<std::string> parts;
  for (size_t start = 0; start <= key.size();) {
    const size_t dot = std::min(key.find('.', start), key.size());
    parts.emplace_back(key.substr(start, dot - start));
    start = dot + 1;
  }
  if (parts.size() > kMaxYamlDepth) {
    throw Error(ExitCode::bad_config,
                fmt::format("{}: a key with more than 64 parts", place.text()), "nest less");
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->empty()) {
      throw Error(ExitCode::bad_config,
                  fmt::format("{}  {}: a part of the key is empty", place.text(), printable(key)),
                  "write it as a.b=value");
    }
    YamlNode parent = empty_mapping();
    parent.place = place;
    parent.keys.push_back({*part, place});
    parent.items.push_back(std::move(node));
    node = std::move(parent);
  }
  return node;
}

std::string override_word(const std::string& key, const std::string& text) {
  return key + "=" + (begins_yaml(text) ? json_quote(text) : text);  // JSON is YAML
}

ResolvedConfig resolve_config(YamlNode root) {
  if (root.kind == YamlNode::Kind::null) root.kind = YamlNode::Kind::mapping;
  if (!root.is_mapping()) {
    throw Error(ExitCode::bad_config,
                fmt::format("{}  a configuration is a mapping of keys", root.place.text()),
                "write lines such as `model: tiny`");
  }
  ResolvedConfig out;
  for (const Key& key : config_keys()) out.origins.push_back({key.name, Place{}});
  const bool no_model = names_no_model(root);
  const bool from_registry = !no_model && expand_model(root);
  const YamlNode expanded = Interpolator(root).expand(root);
  Filler filler(out);
  filler.fill(expanded, "");
  if (no_model) {  // after unknown keys, of which one may be a misspelt `model`
    filler.problems().add(
        "no model is given",
        "add `model: tiny` to the file or model=tiny to the command (see stretto models)");
  }
  if (filler.problems().empty()) derive(out, from_registry, filler.problems());
  filler.problems().throw_if_any();
  return out;
}

ResolvedConfig load_config_text(std::string_view text, const std::string& name) {
  return resolve_config(parse_yaml(text, name));
}

ResolvedConfig load_config(const std::vector<std::string>& words,
                           const std::vector<Place>& places) {
  YamlNode root = empty_mapping();
  std::vector<YamlNode> models, overrides;  // a model's name must come before changes to its fields
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const Place& place = i < places.size() ? places[i] : kCommandLine;
    if (is_override(word)) {
      overrides.push_back(override_tree(word, place));
      continue;
    }
    if (lookup_model(word) != nullptr) {
      models.push_back(override_tree("model=" + word, place));
      continue;
    }
    if (!looks_like_path(word)) {
      throw Error(
          ExitCode::no_input,
          fmt::format("{}'{}' is neither a file, a model, nor key=value",
                      i < places.size() ? place.text() + "  " : "", printable(word.substr(0, 80))),
          did_you_mean(word, model_names(), "`stretto models` lists the models"));
    }
    YamlNode tree = read_yaml_file(word);
    if (tree.is_mapping()) {
      merge_yaml(root, tree);
    } else if (tree.kind != YamlNode::Kind::null) {
      resolve_config(std::move(tree));  // throws, because it is no mapping
    }
  }
  for (const YamlNode& tree : models) merge_yaml(root, tree);
  for (const YamlNode& tree : overrides) merge_yaml(root, tree);
  return resolve_config(std::move(root));
}

}  // namespace stretto

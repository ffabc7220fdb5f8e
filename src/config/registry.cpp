#include "config/registry.h"

#include "base/embedded.h"
#include "base/error.h"
#include "base/log.h"
#include "config/schema.h"
#include "config/suggest.h"
#include "config/yaml.h"

namespace stretto {

std::span<const EmbeddedFile> embedded_models();

namespace {

// Sets fields from `common` or from the model's own line; both use the names of model.* keys.
void apply_fields(Config& config, const YamlNode& fields) {
  for (size_t i = 0; i < fields.keys.size(); ++i) {
    const Key* key = find_key("model." + fields.keys[i].name);
    STRETTO_CHECK(key != nullptr, "{}: unknown model field {}", fields.keys[i].place.text(),
                  fields.keys[i].name);
    key->set(config, parse_value(*key, fields.items[i]));
  }
}

void read_family(const EmbeddedFile& file, std::vector<RegistryModel>& models) {
  const std::string path = "configs/models/" + std::string(file.name);
  const YamlNode root = parse_yaml(file.content, path);
  const YamlNode* family = root.find("family");
  const YamlNode* about = root.find("about");
  const YamlNode* common = root.find("common");
  const YamlNode* list = root.find("models");
  STRETTO_CHECK(family && about && list && list->is_mapping(), "{} lacks a field", path);
  for (size_t i = 0; i < list->keys.size(); ++i) {
    Config config;
    if (common) apply_fields(config, *common);
    apply_fields(config, list->items[i]);
    ModelShape shape = config.model;
    shape.name = list->keys[i].name;
    if (shape.ffn == 0) shape.ffn = 4 * shape.hidden;
    models.push_back({shape, family->text, path, about->text});
  }
}

}  // namespace

const std::vector<RegistryModel>& registry_models() {
  static const std::vector<RegistryModel> models = [] {
    std::vector<RegistryModel> all;
    for (const EmbeddedFile& file : embedded_models()) read_family(file, all);
    return all;
  }();
  return models;
}

const RegistryModel* lookup_model(std::string_view name) {
  for (const RegistryModel& model : registry_models()) {
    if (model.shape.name == name) return &model;
  }
  return nullptr;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const RegistryModel& model : registry_models()) names.push_back(model.shape.name);
  return names;
}

ModelShape find_model(std::string_view name) {
  if (const RegistryModel* model = lookup_model(name)) return model->shape;
  throw Error(ExitCode::no_input,
              fmt::format("no model is called '{}'", printable(name.substr(0, 60))),
              did_you_mean(name, model_names(), "`stretto models` lists the known names"));
}

}  // namespace stretto

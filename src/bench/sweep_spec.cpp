#include "bench/sweep_spec.h"

#include "base/log.h"
#include "base/shell_text.h"
#include "base/units.h"
#include "bench/sweep_grid.h"
#include "config/reader.h"

namespace stretto {
namespace {

[[noreturn]] void wrong(const YamlNode& node, const std::string& what, const std::string& fix) {
  throw Error(ExitCode::bad_config, fmt::format("{}: {}", node.place.text(), what), fix);
}

const std::string& scalar(const YamlNode& node, const std::string& key) {
  if (!node.is_scalar()) wrong(node, printable(key) + " is not one value", "write key: value");
  return node.text;
}

template <typename Number>
Number number(const YamlNode& node, const std::string& key, Number (*parse)(std::string_view)) {
  const std::string& text = scalar(node, key);
  try {
    return parse(text);
  } catch (const Error& error) {
    wrong(node, fmt::format("{}: {}", key, error.what()), error.hint());
  }
}

double time_limit(const YamlNode& node) {
  const double seconds = number(node, "timeout", parse_seconds);
  if (!(seconds > 0)) wrong(node, "timeout must be positive", "timeout: 10min");
  return seconds;
}

void add_word(GridChoice& choice, const std::string& key, const YamlNode& value) {
  // It was read once already, so it is valid.
  choice.words.push_back(override_word(key, scalar(value, key)));
  choice.places.push_back(value.place);
}

GridChoice base_words(const YamlNode& root) {
  const YamlNode* base = root.find("base");
  if (base == nullptr) return {};
  if (base->is_scalar()) return {{base->text}, {base->place}};
  if (!base->is_sequence())
    wrong(*base, "base is a file, a name, or a list of words", "base: tiny");
  GridChoice out;
  for (const YamlNode& item : base->items) {
    out.words.push_back(scalar(item, "base"));
    out.places.push_back(item.place);
  }
  return out;
}

void read_grid(const YamlNode& grid, const GridChoice& base, std::vector<SweepPoint>& out) {
  if (!grid.is_mapping()) wrong(grid, "grid is not a mapping", "grid: {parallel.tp: [1, 2]}");
  std::vector<GridAxis> axes;
  for (size_t k = 0; k < grid.keys.size(); ++k) {
    const std::string& key = grid.keys[k].name;
    const YamlNode& values = grid.items[k];
    GridAxis axis;
    const auto add = [&](const YamlNode& value) {
      add_word(axis.choices.emplace_back(), key, value);
      axis.name_after(key == "model" ? "" : key, value.text);
    };
    if (values.is_sequence()) {
      for (const YamlNode& value : values.items) add(value);
    } else {
      add(values);
    }
    if (axis.choices.empty()) wrong(values, key + " has no values", "list at least one");
    axes.push_back(std::move(axis));
  }
  append_product(axes, base, out);
}

void read_points(const YamlNode& list, const GridChoice& base, std::vector<SweepPoint>& out) {
  if (!list.is_sequence()) wrong(list, "points is not a list", "points: [{parallel.tp: 2}]");
  for (const YamlNode& item : list.items) {
    if (!item.is_mapping()) wrong(item, "a point is a mapping", "- {name: tp2, parallel.tp: 2}");
    SweepPoint point;
    GridChoice choice = base;
    for (size_t k = 0; k < item.keys.size(); ++k) {
      const std::string& key = item.keys[k].name;
      if (key == "timeout") {
        point.timeout = time_limit(item.items[k]);
      } else if (key == "name") {
        point.label = scalar(item.items[k], key);
        if (!is_safe_name(point.label)) {
          wrong(item.items[k], "the name is no safe file name",
                "use letters, digits, single dots, dashes and underscores, 128 at most");
        }
      } else {
        add_word(choice, key, item.items[k]);
      }
    }
    append_choice(choice, point);
    out.push_back(std::move(point));
  }
}

}  // namespace

SweepSpec parse_sweep(const YamlNode& root) {
  if (!root.is_mapping()) wrong(root, "a sweep is a mapping", "see configs/sweeps/");
  SweepSpec spec;
  GridChoice base = base_words(root);
  for (size_t k = 0; k < root.keys.size(); ++k) {
    const std::string& key = root.keys[k].name;
    const YamlNode& value = root.items[k];
    if (key == "set") {
      if (!value.is_mapping()) wrong(value, "set is not a mapping", "set: {train.lr: 1e-3}");
      for (size_t i = 0; i < value.keys.size(); ++i) {
        add_word(base, value.keys[i].name, value.items[i]);
      }
    } else if (key == "steps") {
      spec.steps = number(value, key, parse_count);
      if (spec.steps < 1 || spec.steps > 1'000'000) {
        wrong(value, "steps must be 1 to 1000000", "steps: 12");
      }
    } else if (key == "seconds") {
      spec.seconds = number(value, key, parse_seconds);
      if (!(spec.seconds >= 0)) wrong(value, "seconds must not be negative", "seconds: 2");
    } else if (key == "timeout") {
      spec.timeout = time_limit(value);
    } else if (key != "base" && key != "grid" && key != "points") {
      throw Error(ExitCode::bad_config,
                  fmt::format("{}: unknown key {}", root.keys[k].place.text(), printable(key)),
                  "a sweep has base, set, grid, points, steps, seconds and timeout");
    }
  }
  if (const YamlNode* grid = root.find("grid")) read_grid(*grid, base, spec.points);
  if (const YamlNode* list = root.find("points")) read_points(*list, base, spec.points);
  if (spec.points.empty()) wrong(root, "the sweep has no points", "add grid: or points:");
  return spec;
}

}  // namespace stretto

#include "bench/sweep_grid.h"

#include <cctype>
#include <map>
#include <set>

#include "base/error.h"
#include "base/shell_text.h"

namespace stretto {
namespace {

std::string short_key(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// A word that only one axis has needs no key in the label: fp32, selective. Numbers and switches
// keep their key: dp2.
void shorten_labels(std::vector<GridAxis>& axes) {
  std::map<std::string, int> had_by;  // by word: how many axes have it
  for (const GridAxis& axis : axes) {
    for (const std::string& value : std::set(axis.values.begin(), axis.values.end())) {
      ++had_by[value];
    }
  }
  for (GridAxis& axis : axes) {
    for (size_t i = 0; i < axis.values.size(); ++i) {
      const std::string& value = axis.values[i];
      const bool word = !value.empty() && std::isalpha(static_cast<unsigned char>(value[0])) != 0 &&
                        value != "true" && value != "false" && value != "auto";
      if (word && had_by[value] == 1) axis.labels[i] = grid_label(value);
    }
  }
}

}  // namespace

std::string grid_label(const std::string& text) {
  std::string out;
  for (const char c : text.substr(text.rfind('/') + 1)) {
    const bool second = c == '.' && out.ends_with('.');
    out += is_safe_name(std::string("x") + c) && !second ? c : '-';
  }
  return out;
}

void GridAxis::name_after(const std::string& key, const std::string& value) {
  values.push_back(value);
  labels.push_back(grid_label(short_key(key) + value));
}

void append_choice(const GridChoice& choice, SweepPoint& point) {
  point.words.insert(point.words.end(), choice.words.begin(), choice.words.end());
  point.places.insert(point.places.end(), choice.places.begin(), choice.places.end());
}

void append_product(std::vector<GridAxis> axes, const GridChoice& base,
                    std::vector<SweepPoint>& out) {
  shorten_labels(axes);
  size_t count = 1;
  for (const GridAxis& axis : axes) {
    count *= axis.choices.size();
    if (count + out.size() > kMaxPoints) {
      throw Error(ExitCode::bad_config, fmt::format("the grid has more than {} points", kMaxPoints),
                  "sweep fewer values at a time");
    }
  }
  for (size_t i = 0; i < count; ++i) {
    SweepPoint point;
    append_choice(base, point);
    size_t rest = i;
    std::vector<size_t> digits(axes.size());
    for (size_t a = axes.size(); a-- > 0;) {  // the last axis varies fastest
      digits[a] = rest % axes[a].choices.size();
      rest /= axes[a].choices.size();
    }
    for (size_t a = 0; a < axes.size(); ++a) {
      append_choice(axes[a].choices[digits[a]], point);
      const std::string& part = axes[a].labels[digits[a]];
      if (!part.empty()) point.label += (point.label.empty() ? "" : "_") + part;
    }
    out.push_back(std::move(point));
  }
}

}  // namespace stretto

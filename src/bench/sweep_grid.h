// Grids of a sweep's points, from a file or from flags.
#pragma once

#include <string>
#include <vector>

#include "bench/sweep_spec.h"

namespace stretto {

// The words that one value of one key stands for, and where they are in the file, if in any.
struct GridChoice {
  std::vector<std::string> words;
  std::vector<Place> places;
};

struct GridAxis {
  std::vector<GridChoice> choices;
  std::vector<std::string> labels;
  std::vector<std::string> values;  // as the user wrote them, if labels are made of them

  void name_after(const std::string& key, const std::string& value);
};

// Keeps letters, digits and single dots; everything else becomes a dash.
std::string grid_label(const std::string& text);

void append_choice(const GridChoice& choice, SweepPoint& point);

// Appends every combination of the axes' choices to `out`, after the words of `base`. The last axis
// varies fastest.
void append_product(std::vector<GridAxis> axes, const GridChoice& base,
                    std::vector<SweepPoint>& out);

}  // namespace stretto

// Who sums the gradient of each bias: decided once, from the shape and the backend.
#pragma once

#include "account/memory.h"
#include "backend/backend.h"

namespace stretto {

struct BiasGradients {
  BiasGradients(const Backend& backend, const RankShape& shape)
      : by_norms(backend.sums_stream_columns() && !shape.gathers_sequence() &&
                 !shape.reduces_each_micro_batch()),
        qkv_from_proj(!shape.gathers_sequence() && shape.model.biases.qkv &&
                      shape.model.biases.proj && shape.model.kv_width() == shape.model.q_width() &&
                      shape.model.position_kind != Positions::rope &&
                      shape.model.qk_norm == QkNorm::none) {}

  // The gradient of a bias that is added to the stream is the column sum of the stream's gradient,
  // which the norm that writes that gradient can sum. The norm above a layer then sums the layer's
  // down_bias, and so opens the buffer of the layer below; it cannot where layers take turns in the
  // same buffers.
  bool by_norms;
  // A bias of the values reaches the output of attention unchanged, so its gradient follows from
  // that of the proj bias, if a rank has the whole of it. With a cut sequence it has not, and
  // grouped heads share their values. Rotary positions and norms come between the product and the
  // scores; then the gradient of the keys' bias is not zero either. Everywhere else columns are
  // summed.
  bool qkv_from_proj;
};

}  // namespace stretto

#include "bench/predict.h"

#include "plan/forecast.h"

namespace stretto {

void predict_time(RunRecord& record) {
  const auto forecast = plan::forecast_run(record.config, record.machine);
  if (forecast) record.predicted = {forecast->seconds, forecast->low, forecast->high};
}

}  // namespace stretto

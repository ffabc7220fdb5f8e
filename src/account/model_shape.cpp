#include "account/model_shape.h"

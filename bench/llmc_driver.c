// llm.c's CPU trainer as a peer of bench/side_by_side, which compiles this file against a checkout of
// llm.c: random weights, random tokens, one JSON line per step.
//   llmc_driver CHECKPOINT B T STEPS
#define TESTING
#include "train_gpt2.c"

static void write_checkpoint(const char* path) {
  // GPT-2 124M in llm.c's format: 256 integers, then the parameters in f32.
  int header[256] = {20240326, 3, 1024, 50257, 12, 12, 768, 50304};
  const size_t C = 768, L = 12;
  size_t left = (50304 + 1024) * C + L * (12 * C * C + 13 * C) + 2 * C;
  FILE* file = fopenCheck(path, "wb");
  fwrite(header, sizeof(int), 256, file);
  float block[4096];
  uint64_t state = 1;
  while (left > 0) {
    const size_t n = left < 4096 ? left : 4096;
    for (size_t i = 0; i < n; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      block[i] = ((float)(state >> 40) / 16777216.0f - 0.5f) * 0.07f;
    }
    fwrite(block, sizeof(float), n, file);
    left -= n;
  }
  fcloseCheck(file);
}

int main(int argc, char** argv) {
  if (argc != 5) return 64;
  const int B = atoi(argv[2]), T = atoi(argv[3]), steps = atoi(argv[4]);
  if (access(argv[1], F_OK) != 0) write_checkpoint(argv[1]);
  GPT2 model;
  gpt2_build_from_checkpoint(&model, argv[1]);
  int* tokens = (int*)mallocCheck((size_t)(B * T + 1) * sizeof(int));
  uint64_t state = 7;
  for (int i = 0; i <= B * T; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tokens[i] = (int)((state >> 33) % 50257);
  }
  for (int step = 1; step <= steps; ++step) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    gpt2_forward(&model, tokens, tokens + 1, B, T);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, 6e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, step);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("{\"step\": %d, \"seconds\": %.6f}\n", step,
           (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
    fflush(stdout);
  }
  gpt2_free(&model);
  free(tokens);
  return 0;
}

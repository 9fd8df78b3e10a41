// A small transformer that learns to continue a text, byte by byte: gpt TEXT [options of trainer.c].
#include <stdio.h>
#include <stdlib.h>

#include "trainer.h"

enum { BYTES = 128, LENGTH = 64, WIDTH = 64, HEADS = 4, LAYERS = 2, BATCH = 16, PER_LAYER = 12 };

static const char *const data_names[] = {"text", "places"};

// The text's bytes, those that are no ASCII as 0, and 0, 1, …, LENGTH: what an example has behind its first byte.
static int64_t make_data(tc_context *c, const char *path, tc_tensor **data) {
  enum { LONGEST = 1 << 20 };
  FILE *f = path ? fopen(path, "rb") : NULL;
  unsigned char *text = f ? malloc(LONGEST) : NULL;
  int64_t n = text ? (int64_t)fread(text, 1, LONGEST, f) : 0, bytes = LENGTH + 1;
  if (f) fclose(f);
  if (n > bytes) {
    data[0] = tc_new_tensor(c, TC_I64, 1, &n);
    data[1] = tc_new_tensor(c, TC_I64, 1, &bytes);
    int64_t *at = tc_data_of(data[0]), *places = tc_data_of(data[1]);
    for (int64_t i = 0; at && i < n; i++) at[i] = text[i] < BYTES ? text[i] : 0;
    for (int64_t i = 0; places && i < bytes; i++) places[i] = i;
  } else {
    fprintf(stderr, "gpt TEXT: a text of more than %d bytes is needed\n", LENGTH + 1);
  }
  free(text);
  return n > bytes ? n - LENGTH : 0;
}

#define LAYER(i)                                                                                 \
  {i ".norm1.weight", 1, {WIDTH}, 1, 0}, {i ".norm1.bias", 1, {WIDTH}, 0, 0},                    \
      {i ".qkv.weight", 2, {3 * WIDTH, WIDTH}, 0, 0.125}, {i ".qkv.bias", 1, {3 * WIDTH}, 0, 0}, \
      {i ".out.weight", 2, {WIDTH, WIDTH}, 0, 0.06}, {i ".out.bias", 1, {WIDTH}, 0, 0},          \
      {i ".norm2.weight", 1, {WIDTH}, 1, 0}, {i ".norm2.bias", 1, {WIDTH}, 0, 0},                \
      {i ".up.weight", 2, {4 * WIDTH, WIDTH}, 0, 0.125}, {i ".up.bias", 1, {4 * WIDTH}, 0, 0},   \
      {i ".down.weight", 2, {WIDTH, 4 * WIDTH}, 0, 0.03}, {i ".down.bias", 1, {WIDTH}, 0, 0}
static const train_parameter parameters[] = {
    {"bytes", 2, {BYTES, WIDTH}, 0, 0.05},
    {"places.weight", 2, {LENGTH, WIDTH}, 0, 0.05},
    LAYER("layer0"),
    LAYER("layer1"),
    {"norm.weight", 1, {WIDTH}, 1, 0},
    {"norm.bias", 1, {WIDTH}, 0, 0},
    {"head", 2, {BYTES, WIDTH}, 0, 0.05},
};
enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static tc_tensor *shaped(tc_tensor *x, int32_t rank, const int64_t *sizes) { return tc_aten_reshape(x, sizes, rank); }

static tc_tensor *attention(tc_tensor *x, tc_tensor *const *p) {
  enum { SIZE = WIDTH / HEADS };
  tc_tensor *qkv = shaped(tc_aten_linear(x, p[2], p[3]), 5, (int64_t[]){BATCH, LENGTH, 3, HEADS, SIZE});
  qkv = tc_aten_permute(qkv, (int64_t[]){2, 0, 3, 1, 4}, 5);
  tc_tensor *y = tc_aten_scaled_dot_product_attention(tc_aten_select_int(qkv, 0, 0), tc_aten_select_int(qkv, 0, 1),
                                                      tc_aten_select_int(qkv, 0, 2), NULL, 0, 1, NULL, 0);
  y = shaped(tc_aten_transpose_int(y, 1, 2), 3, (int64_t[]){BATCH, LENGTH, WIDTH});
  return tc_aten_linear(y, p[4], p[5]);
}

static int32_t loss(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *const *p = in + 3;
  tc_tensor *at = shaped(train_add(tc_aten_unsqueeze(in[2], 1), in[1]), 1, (int64_t[]){BATCH * (LENGTH + 1)});
  tc_tensor *text = shaped(tc_aten_index_select(in[0], 0, at), 2, (int64_t[]){BATCH, LENGTH + 1});
  tc_tensor *x = tc_aten_embedding(p[0], tc_aten_narrow(text, 1, 0, LENGTH), -1, 0, 0);
  tc_tensor *next = shaped(tc_aten_narrow(text, 1, 1, LENGTH), 1, (int64_t[]){BATCH * LENGTH});
  x = train_add(x, p[1]);
  p += 2;
  for (int i = 0; i < LAYERS; i++, p += PER_LAYER) {
    x = train_add(x, attention(train_layer_norm(x, WIDTH, p[0], p[1]), p));
    tc_tensor *h = tc_aten_linear(train_layer_norm(x, WIDTH, p[6], p[7]), p[8], p[9]);
    x = train_add(x, tc_aten_linear(tc_aten_gelu(h, "none"), p[10], p[11]));
  }
  x = tc_aten_linear(train_layer_norm(x, WIDTH, p[0], p[1]), p[2], NULL);
  out[0] = tc_aten_cross_entropy_loss(shaped(x, 2, (int64_t[]){BATCH * LENGTH, BYTES}), next, NULL, 1, -100, 0);
  return tc_last_code();
}

int main(int argc, char **argv) {
  const train_program p = {.name = "gpt",
                           .n_data = 2,
                           .data_names = data_names,
                           .make_data = make_data,
                           .batch = BATCH,
                           .n_parameters = PARAMETERS,
                           .parameters = parameters,
                           .loss = loss,
                           .optimizer = {.kind = TC_ADAMW, .rate = 2e-3, .decay = 0.05, .clip = 1},
                           .steps = 300};
  return train_main(&p, argc, argv);
}

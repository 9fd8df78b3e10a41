// oneDNN 2.6+ and 3.x by one set of names.
#include "dnn.h"

static void copy_dims(dnnl_dims_t out, int32_t n, const int64_t *from) {
  for (int32_t i = 0; i < n; i++) out[i] = from[i];
}

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t dnn_md_strides(dnnl_memory_desc_t *out, int32_t rank, const int64_t *sizes, dnnl_data_type_t t,
                             const int64_t *strides) {
  dnnl_dims_t d, s;
  copy_dims(d, rank, sizes), copy_dims(s, rank, strides);
  return dnnl_memory_desc_create_with_strides(out, rank, d, t, s);
}

dnnl_status_t dnn_md_tag(dnnl_memory_desc_t *out, int32_t rank, const int64_t *sizes, dnnl_data_type_t t,
                         dnnl_format_tag_t tag) {
  dnnl_dims_t d;
  copy_dims(d, rank, sizes);
  return dnnl_memory_desc_create_with_tag(out, rank, d, t, tag);
}

dnnl_status_t dnn_md_copy(dnnl_memory_desc_t *out, dnn_desc md) { return dnnl_memory_desc_clone(out, md); }
void dnn_md_free(dnnl_memory_desc_t *md) { dnnl_memory_desc_destroy(*md); }

dnnl_status_t dnn_post_eltwise(dnnl_post_ops_t p, dnnl_alg_kind_t alg, double alpha, double beta) {
  return dnnl_post_ops_append_eltwise(p, alg, (float)alpha, (float)beta);
}

dnnl_status_t dnn_matmul_desc(dnnl_primitive_desc_t *out, dnnl_engine_t e, dnn_desc src, dnn_desc weights,
                              dnn_desc bias, dnn_desc dst, const_dnnl_primitive_attr_t attr, bool tiles) {
  dnnl_status_t s = dnnl_matmul_primitive_desc_create(out, e, src, weights, bias, dst, attr);
  while (s == dnnl_success && !tiles && dnn_has_tiles(*out)) s = dnnl_primitive_desc_next_impl(*out);
  return s;
}

dnnl_status_t dnn_conv_desc(dnnl_primitive_desc_t *out, dnnl_engine_t e, bool transposed, dnn_desc src,
                            dnn_desc weights, dnn_desc bias, dnn_desc dst, const dnn_conv_dims *d,
                            const_dnnl_primitive_attr_t attr) {
  if (transposed)
    return dnnl_deconvolution_forward_primitive_desc_create(out, e, dnnl_forward_inference, dnnl_deconvolution_direct,
                                                            src, weights, bias, dst, d->strides, d->dilates,
                                                            d->pad_left, d->pad_right, attr);
  return dnnl_convolution_forward_primitive_desc_create(out, e, dnnl_forward_inference, dnnl_convolution_auto, src,
                                                        weights, bias, dst, d->strides, d->dilates, d->pad_left,
                                                        d->pad_right, attr);
}

#else

dnnl_status_t dnn_md_strides(dnnl_memory_desc_t *out, int32_t rank, const int64_t *sizes, dnnl_data_type_t t,
                             const int64_t *strides) {
  dnnl_dims_t d, s;
  copy_dims(d, rank, sizes), copy_dims(s, rank, strides);
  return dnnl_memory_desc_init_by_strides(out, rank, d, t, s);
}

dnnl_status_t dnn_md_tag(dnnl_memory_desc_t *out, int32_t rank, const int64_t *sizes, dnnl_data_type_t t,
                         dnnl_format_tag_t tag) {
  dnnl_dims_t d;
  copy_dims(d, rank, sizes);
  return dnnl_memory_desc_init_by_tag(out, rank, d, t, tag);
}

dnnl_status_t dnn_md_copy(dnnl_memory_desc_t *out, dnn_desc md) {
  *out = *md;
  return dnnl_success;
}
void dnn_md_free(dnnl_memory_desc_t *md) { (void)md; }

dnnl_status_t dnn_post_eltwise(dnnl_post_ops_t p, dnnl_alg_kind_t alg, double alpha, double beta) {
  return dnnl_post_ops_append_eltwise(p, 1, alg, (float)alpha, (float)beta);
}

dnnl_status_t dnn_matmul_desc(dnnl_primitive_desc_t *out, dnnl_engine_t e, dnn_desc src, dnn_desc weights,
                              dnn_desc bias, dnn_desc dst, const_dnnl_primitive_attr_t attr, bool tiles) {
  dnnl_matmul_desc_t d;
  dnnl_primitive_desc_iterator_t choices = NULL;
  dnnl_status_t s = dnnl_matmul_desc_init(&d, src, weights, bias, dst);
  if (s == dnnl_success) s = dnnl_primitive_desc_iterator_create(&choices, &d, attr, e, NULL);
  while (s == dnnl_success) {
    *out = dnnl_primitive_desc_iterator_fetch(choices);
    if (tiles || !dnn_has_tiles(*out)) break;
    dnnl_primitive_desc_destroy(*out), *out = NULL;
    s = dnnl_primitive_desc_iterator_next(choices);
  }
  if (choices) dnnl_primitive_desc_iterator_destroy(choices);
  return s == dnnl_iterator_ends ? dnnl_unimplemented : s;
}

dnnl_status_t dnn_conv_desc(dnnl_primitive_desc_t *out, dnnl_engine_t e, bool transposed, dnn_desc src,
                            dnn_desc weights, dnn_desc bias, dnn_desc dst, const dnn_conv_dims *d,
                            const_dnnl_primitive_attr_t attr) {
  if (transposed) {
    dnnl_deconvolution_desc_t desc;
    dnnl_status_t s = dnnl_dilated_deconvolution_forward_desc_init(&desc, dnnl_forward_inference,
                                                                   dnnl_deconvolution_direct, src, weights, bias, dst,
                                                                   d->strides, d->dilates, d->pad_left, d->pad_right);
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, e, NULL) : s;
  }
  dnnl_convolution_desc_t desc;
  dnnl_status_t s =
      dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_auto, src, weights,
                                                 bias, dst, d->strides, d->dilates, d->pad_left, d->pad_right);
  return s == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, e, NULL) : s;
}

#endif

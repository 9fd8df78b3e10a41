// PyTorch's schema strings: representative ones here; a whole list (one schema a line) can be named by TC_SCHEMA_FILE.
#include "core/ir/op.h"
#include "tests/unit/unit.h"

static const char *const schemas[] = {
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
    "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
    "dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
    "(Tensor, Tensor, Tensor)",
    "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
    "memory_format=None) -> Tensor(a)",
    "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
    "pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
    "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None) -> Tensor",
    "aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
    "aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str "
    "padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
    "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    "aten::item(Tensor self) -> Scalar",
    "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor "
    "indices)",
    "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor "
    "indices)",
    "aten::_cudnn_rnn.out(Tensor input, Tensor[] weight, int weight_stride0, Tensor? weight_buf, Tensor hx, Tensor? "
    "cx, int mode, SymInt hidden_size, SymInt proj_size, int num_layers, bool batch_first, float dropout, bool train, "
    "bool bidirectional, SymInt[] batch_sizes, Tensor? dropout_state, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) "
    "out2, Tensor(d!) out3, Tensor(e!) out4) -> (Tensor(a!), Tensor(b!), Tensor(c!), Tensor(d!), Tensor(e!))",
    "aten::_cudnn_rnn_backward.out(Tensor input, Tensor[] weight, int weight_stride0, Tensor weight_buf, Tensor hx, "
    "Tensor? cx, Tensor output, Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy, int mode, SymInt hidden_size, "
    "SymInt proj_size, int num_layers, bool batch_first, float dropout, bool train, bool bidirectional, SymInt[] "
    "batch_sizes, Tensor? dropout_state, Tensor reserve, bool[4] output_mask, *, Tensor(a!) out0, Tensor(b!) out1, "
    "Tensor(c!) out2, Tensor(d!)[] out3) -> ()",
    "aten::_embedding_bag.out(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int "
    "mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1, "
    "*, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2, Tensor(d!) out3) -> (Tensor(a!), Tensor(b!), Tensor(c!), "
    "Tensor(d!))",
    "aten::miopen_rnn.out(Tensor input, Tensor[] weight, int weight_stride0, Tensor hx, Tensor? cx, int mode, int "
    "hidden_size, int num_layers, bool batch_first, float dropout, bool train, bool bidirectional, int[] batch_sizes, "
    "Tensor? dropout_state, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2, Tensor(d!) out3, Tensor(e!) out4) -> "
    "(Tensor(a!), Tensor(b!), Tensor(c!), Tensor(d!), Tensor(e!))",
    "aten::mkldnn_rnn_layer_backward.out(Tensor input, Tensor weight1, Tensor weight2, Tensor weight3, Tensor weight4, "
    "Tensor hx_, Tensor cx_tmp, Tensor output, Tensor hy_, Tensor cy_, Tensor? grad_output, Tensor? grad_hy, Tensor? "
    "grad_cy, bool reverse, int mode, int hidden_size, int num_layers, bool has_biases, bool train, bool "
    "bidirectional, int[] batch_sizes, bool batch_first, Tensor workspace, *, Tensor(a!) out0, Tensor(b!) out1, "
    "Tensor(c!) out2, Tensor(d!) out3, Tensor(e!) out4, Tensor(f!) out5, Tensor(g!) out6) -> (Tensor(a!), Tensor(b!), "
    "Tensor(c!), Tensor(d!), Tensor(e!), Tensor(f!), Tensor(g!))",
    "aten::_efficient_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? cu_seqlens_q, "
    "Tensor? cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, float dropout_p, int custom_mask_type, bool "
    "compute_log_sumexp=False, *, float? scale=None, Tensor? seqlen_k=None, int? window_size=None) -> (Tensor output, "
    "Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, SymInt max_seqlen_batch_q, SymInt max_seqlen_batch_k)",
    "aten::_empty_affine_quantized(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None, float scale=1., int zero_point=0, MemoryFormat? memory_format=0) -> Tensor",
    "aten::_fused_adam.tensor_lr_out(Tensor[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] "
    "exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float "
    "weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None, "
    "Tensor(a!)[] out) -> ()",
    "aten::_fused_moving_avg_obs_fq_helper.out(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) "
    "running_min, Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int "
    "quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False, *, Tensor(e!) "
    "out0, Tensor(f!) out1) -> (Tensor(e!), Tensor(f!))",
    "aten::_lstm_mps.out(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
    "bool train, bool bidirectional, bool batch_first, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2, "
    "Tensor(d!) out3, Tensor(e!) out4, Tensor(f!) out5) -> (Tensor(a!), Tensor(b!), Tensor(c!), Tensor(d!), "
    "Tensor(e!), Tensor(f!))",
    "aten::stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
    "center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, bool? return_complex=None, "
    "bool? align_to_window=None) -> Tensor",
    "aten::_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, Tensor value, Tensor? bias, "
    "Tensor out, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, Tensor "
    "logsumexp, float dropout_p, Tensor philox_seed, Tensor philox_offset, int custom_mask_type, bool "
    "bias_requires_grad, *, float? scale=None, int? num_splits_key=None, int? window_size=None, bool "
    "shared_storage_dqdkdv=False) -> (Tensor, Tensor, Tensor, Tensor)",
    "aten::_flash_attention_forward_no_dropout_inplace(Tensor(a!) out, Tensor query, Tensor key, Tensor value, Tensor? "
    "cum_seq_q, Tensor? cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool "
    "return_debug_mask, *, float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None, Tensor? "
    "seqused_k=None, Tensor? alibi_slopes=None, Tensor? block_table=None, int? num_splits=None) -> Tensor "
    "softmax_logsumexp",
    "aten::_scaled_grouped_mm_v2.out(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, "
    "Tensor[] scale_b, int[] recipe_b, int[] swizzle_b, Tensor? offs=None, Tensor? bias=None, ScalarType? "
    "out_dtype=None, int[] contraction_dim=[], bool use_fast_accum=False, *, Tensor(a!) out) -> Tensor(a!)",
    "aten::avg_pool2d.out(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
    "bool count_include_pad=True, int? divisor_override=None, *, Tensor(a!) out) -> Tensor(a!)",
    "aten::avg_pool3d.out(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, "
    "bool count_include_pad=True, int? divisor_override=None, *, Tensor(a!) out) -> Tensor(a!)",
    "aten::histogram.bin_ct_out(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool "
    "density=False, Tensor(a!) hist, Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!) bin_edges)",
    "aten::linalg_matrix_norm.str_ord_out(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool keepdim=False, *, "
    "ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)",
    "aten::logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "aten::rrelu_with_noise.out(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, "
    "bool training=False, Generator? generator=None, *, Tensor(a!) out) -> Tensor(a!)",
    "aten::segment_reduce.out(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? "
    "offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None, Tensor(a!) out) -> Tensor(a!)",
    "aten::__interpolate(Tensor input, int? size=None, float? scale_factor=None, str mode=\"nearest\", bool? "
    "align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
    "aten::_batch_norm_with_update.out(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) "
    "running_var, float momentum, float eps, *, Tensor(d!) out, Tensor(e!) save_mean, Tensor(f!) save_invstd, "
    "Tensor(g!) reserve) -> (Tensor(d!), Tensor(e!), Tensor(f!), Tensor(g!))",
    "aten::_cudnn_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, Tensor? cum_seq_q, "
    "Tensor? cum_seq_k, SymInt max_q, SymInt max_k, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, "
    "bool return_debug_mask=False, *, float? scale=None, Tensor? seqused_k=None, Tensor? block_table=None) -> (Tensor "
    "output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor philox_seed, "
    "Tensor philox_offset, Tensor debug_attn_mask)",
    "aten::_cudnn_rnn_backward(Tensor input, Tensor[] weight, int weight_stride0, Tensor weight_buf, Tensor hx, "
    "Tensor? cx, Tensor output, Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy, int mode, SymInt hidden_size, "
    "SymInt proj_size, int num_layers, bool batch_first, float dropout, bool train, bool bidirectional, SymInt[] "
    "batch_sizes, Tensor? dropout_state, Tensor reserve, bool[4] output_mask) -> (Tensor, Tensor, Tensor, Tensor[])",
    "aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, "
    "SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, "
    "SymInt? window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None, "
    "Tensor? block_table=None, int? num_splits=None) -> (Tensor output, Tensor softmax_logsumexp, Tensor rng_state, "
    "Tensor unused, Tensor debug_attn_mask)",
    "aten::_fused_moving_avg_obs_fq_helper(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) "
    "running_min, Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int "
    "quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> (Tensor "
    "output, Tensor mask)",
    "aten::_linalg_svd.U(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None, Tensor(a!) U, "
    "Tensor(b!) S, Tensor(c!) Vh) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh)",
    "aten::_native_batch_norm_legit.out(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, "
    "Tensor(b!) running_var, bool training, float momentum, float eps, *, Tensor(d!) out, Tensor(e!) save_mean, "
    "Tensor(f!) save_invstd) -> (Tensor(d!), Tensor(e!), Tensor(f!))",
    "aten::_native_multi_head_attention.out(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, "
    "Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool "
    "need_weights=True, bool average_attn_weights=True, int? mask_type=None, *, Tensor(a!) out0, Tensor(b!) out1) -> "
    "(Tensor(a!), Tensor(b!))",
    "aten::_scaled_dot_product_flash_attention.quantized(Tensor query, Tensor key, Tensor value, Tensor? q_descale, "
    "Tensor? k_descale, Tensor? v_descale, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, "
    "float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt "
    "max_k, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)",
    "aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding=\"valid\", "
    "SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
    "aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str "
    "padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
    "aten::convolution_backward.out(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] "
    "stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] "
    "output_mask, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
    "aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt "
    "ignore_index=-100, float label_smoothing=0.) -> Tensor",
    "aten::linalg_vector_norm.out(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
    "dtype=None, Tensor(a!) out) -> Tensor(a!)",
    "aten::mkldnn_reorder_conv2d_weight.out(Tensor self, SymInt[2] padding=[0, 0], SymInt[2] stride=[1, 1], SymInt[2] "
    "dilation=[1, 1], SymInt groups=1, SymInt[]? input_size=None, *, Tensor(a!) out) -> Tensor(a!)",
    "aten::nanquantile.scalar_out(Tensor self, float q, int? dim=None, bool keepdim=False, *, str "
    "interpolation=\"linear\", Tensor(a!) out) -> Tensor(a!)",
    "aten::quantized_lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, "
    "__torch__.torch.classes.rnn.CellParamsBase[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, *, ScalarType? dtype=None, bool use_dynamic=False) -> (Tensor, Tensor, Tensor)",
    "aten::randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float "
    "eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor",
    "aten::_cudnn_attention_forward_no_dropout_inplace(Tensor(a!) out, Tensor query, Tensor key, Tensor value, Tensor "
    "cum_seq_q, Tensor? cum_seq_k, SymInt max_q, SymInt max_k, bool is_causal=False, *, float? scale=None, Tensor? "
    "seqused_k=None, Tensor? block_table=None) -> Tensor logsumexp",
    "aten::_cudnn_rnn(Tensor input, Tensor[] weight, int weight_stride0, Tensor? weight_buf, Tensor hx, Tensor? cx, "
    "int mode, SymInt hidden_size, SymInt proj_size, int num_layers, bool batch_first, float dropout, bool train, bool "
    "bidirectional, SymInt[] batch_sizes, Tensor? dropout_state) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "aten::_fused_sdp_choice(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool "
    "is_causal=False, *, float? scale=None, bool enable_gqa=False) -> int",
    "aten::_linalg_solve_ex.result(Tensor A, Tensor B, *, bool left=True, bool check_errors=False, Tensor(a!) result, "
    "Tensor(b!) LU, Tensor(c!) pivots, Tensor(d!) info) -> (Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots, "
    "Tensor(d!) info)",
    "aten::_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
    "dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> "
    "(Tensor, Tensor)",
    "aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool "
    "compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor "
    "log_sumexp, Tensor philox_seed, Tensor philox_offset)",
    "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., "
    "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
    "aten::avg_pool1d.out(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, "
    "bool count_include_pad=True, *, Tensor(a!) out) -> Tensor(a!)",
    "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
    "eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor",
    "aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool "
    "density=False) -> (Tensor hist, Tensor bin_edges)",
    "aten::histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> "
    "(Tensor hist, Tensor[] bin_edges)",
    "aten::kthvalue.values(Tensor self, SymInt k, int dim=-1, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) "
    "indices) -> (Tensor(a!) values, Tensor(b!) indices)",
    "aten::linalg_lstsq.out(Tensor self, Tensor b, float? rcond=None, *, str? driver=None, Tensor(a!) solution, "
    "Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values) -> (Tensor(a!) solution, Tensor(b!) residuals, "
    "Tensor(c!) rank, Tensor(d!) singular_values)",
    "aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar "
    "upper=0.33333333333333331, bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)",
    "aten::_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool "
    "density=False) -> Tensor[]",
    "aten::_linalg_eigh.eigenvalues(Tensor A, str UPLO=\"L\", bool compute_v=True, *, Tensor(a!) eigenvalues, "
    "Tensor(b!) eigenvectors) -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward(Tensor grad_out, Tensor query, Tensor key, Tensor "
    "value, Tensor attn_bias, bool[4] grad_input_mask, Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor "
    "cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, Tensor philox_seed, Tensor philox_offset, "
    "*, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_attn_bias)",
    "aten::_upsample_bicubic2d_aa_backward.grad_input(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, "
    "bool align_corners, float? scales_h=None, float? scales_w=None, *, Tensor(a!) grad_input) -> Tensor(a!)",
    "aten::aminmax.out(Tensor self, *, int? dim=None, bool keepdim=False, Tensor(a!) min, Tensor(b!) max) -> "
    "(Tensor(a!) min, Tensor(b!) max)",
    "aten::fft_fft2.out(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None, *, Tensor(a!) out) -> "
    "Tensor(a!)",
    "aten::linalg_lu_factor_ex.out(Tensor A, *, bool pivot=True, bool check_errors=False, Tensor(a!) LU, Tensor(b!) "
    "pivots, Tensor(c!) info) -> (Tensor(a!) LU, Tensor(b!) pivots, Tensor(c!) info)",
    "aten::pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str "
    "padding_side=\"right\") -> Tensor",
    "aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
    "MemoryFormat? memory_format=None) -> Tensor(a)",
    "aten::upsample_trilinear3d_backward.grad_input(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, "
    "bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None, *, Tensor(a!) grad_input) "
    "-> Tensor(a!)",
    "aten::_fused_adagrad.tensor_lr(Tensor[] self, Tensor[] grads, Tensor[] state_sums, Tensor[] state_steps, *, "
    "Tensor lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? "
    "found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] state_sums_out)",
    "aten::_fused_adam.tensor_lr(Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] "
    "max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, "
    "bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] "
    "grads_out, Tensor[] exp_avgs_out, Tensor[] exp_avg_sqs_out, Tensor[] max_exp_avg_sqs_out)",
    "aten::_fused_sgd.tensor_lr(Tensor[] self, Tensor[] grads, Tensor[] momentum_buffer_list, *, float weight_decay, "
    "float momentum, Tensor lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? "
    "grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] "
    "momentum_buffer_list_out)",
    "aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, "
    "Tensor S, Tensor Vh)",
    "aten::_scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
    "Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, "
    "bool is_causal, Tensor philox_seed, Tensor philox_offset, *, float? scale=None) -> (Tensor grad_query, Tensor "
    "grad_key, Tensor grad_value)",
    "aten::_to_sparse.out(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None, Tensor(a!) "
    "out) -> Tensor(a!)",
    "aten::allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool "
    "equal_nan=False) -> bool",
    "aten::backward.TensorList(Tensor[] tensors, Tensor?[]? grad_tensors=None, bool? retain_graph=None, bool "
    "create_graph=False) -> ()",
    "aten::bernoulli.float_out(Tensor self, float p=0.5, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)",
    "aten::diag_embed.out(Tensor self, int offset=0, int dim1=-2, int dim2=-1, *, Tensor(a!) out) -> Tensor(a!)",
    "aten::grad(Tensor[] outputs, Tensor[] inputs, Tensor?[]? grad_outputs=None, bool? retain_graph=None, bool "
    "create_graph=False, bool allow_unused=False) -> Tensor?[]",
    "aten::gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
    "aten::grid_sampler_2d_backward.out(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int "
    "padding_mode, bool align_corners, bool[2] output_mask, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), "
    "Tensor(b!))",
    "aten::linalg_ldl_factor_ex.out(Tensor self, *, bool hermitian=False, bool check_errors=False, Tensor(a!) LD, "
    "Tensor(b!) pivots, Tensor(c!) info) -> (Tensor(a!) LD, Tensor(b!) pivots, Tensor(c!) info)",
    "aten::linalg_lu.out(Tensor A, *, bool pivot=True, Tensor(a!) P, Tensor(b!) L, Tensor(c!) U) -> (Tensor(a!) P, "
    "Tensor(b!) L, Tensor(c!) U)",
    "aten::linalg_solve_ex.out(Tensor A, Tensor B, *, bool left=True, bool check_errors=False, Tensor(a!) result, "
    "Tensor(b!) info) -> (Tensor(a!) result, Tensor(b!) info)",
    "aten::lstm_mps_backward(Tensor? grad_y, Tensor? grad_hy, Tensor? grad_cy, Tensor z_state, Tensor cell_state_fwd, "
    "Tensor input, Tensor layersOutputs, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
    "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor[], Tensor[])",
    "aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor",
    "aten::set.source_Storage_storage_offset_out(Tensor self, Storage source, SymInt storage_offset, SymInt[] size, "
    "SymInt[] stride=[], *, Tensor(a!) out) -> Tensor(a!)",
    "aten::svd.U(Tensor self, bool some=True, bool compute_uv=True, *, Tensor(a!) U, Tensor(b!) S, Tensor(c!) V) -> "
    "(Tensor(a!) U, Tensor(b!) S, Tensor(c!) V)",
    "aten::tensor.complex(complex t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> "
    "Tensor",
    "aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    "aten::to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool non_blocking=False, bool copy=False) "
    "-> Tensor(b|a)",
    "aten::triangular_solve.X(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False, "
    "*, Tensor(a!) X, Tensor(b!) M) -> (Tensor(a!) solution, Tensor(b!) cloned_coefficient)",
    "aten::_fused_adagrad(Tensor[] self, Tensor[] grads, Tensor[] state_sums, Tensor[] state_steps, *, float lr, float "
    "lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> "
    "(Tensor[] self_out, Tensor[] grads_out, Tensor[] state_sums_out, Tensor[] state_steps_out)",
    "aten::to_here(RRef(t) self, float timeout=60.) -> t(*)",
};

TC_TEST(representative_schemas_parse) {
  for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
    tc_schema s;
    TC_TRY(tc_schema_parse(arena, tc_sv_of(schemas[i]), &s), "in '%s'", schemas[i]);
    assert_true(tc_sv_starts(tc_sv_of(schemas[i]),
                             tc_sv_printf(arena, TC_SV_FMT "::" TC_SV_FMT "%s" TC_SV_FMT "(", TC_SV_ARG(s.ns),
                                          TC_SV_ARG(s.name), s.overload.size ? "." : "", TC_SV_ARG(s.overload))
                                 .data));
  }
  return TC_OK;
}

TC_TEST(all_schemas_of_a_file_parse) {
  const char *path = tc_env("TC_SCHEMA_FILE");
  if (!path) return TC_OK;
  tc_sv text, line;
  int32_t n = 0;
  TC_TRY(tc_file_read(arena, path, &text));
  while (text.size) {
    text = tc_sv_cut(text, '\n', &line);
    if (!line.size) continue;
    tc_schema s;
    TC_TRY(tc_schema_parse(arena, line, &s), "in '" TC_SV_FMT "'", TC_SV_ARG(line));
    n++;
  }
  print_message("%d schemas\n", n);
  return TC_OK;
}

static const tc_schema_arg *arg(const tc_schema *s, const char *name) {
  for (int32_t i = 0; i < s->n_args; i++)
    if (tc_sv_is(s->args[i].name, name)) return &s->args[i];
  fail_msg("no argument %s", name);
  return NULL;
}

TC_TEST(parts_of_a_schema) {
  tc_schema s;
  TC_TRY(tc_schema_parse(arena,
                         TC_SV("x::pad.y(Tensor(a!) self, Tensor?[] idx, int[2] stride=1, SymInt[] size=[0,-1], *, "
                               "float eps=1., float p=2, Scalar s=3, "
                               "bool[3] m=[True,False,True], str mode=\"a\\n\", ScalarType? d=None, MemoryFormat f=0, "
                               "Tensor? t=None, int[1]? dim=None) -> (Tensor(a!) out, Tensor[])"),
                         &s));
  assert_sv(s.ns, "x");
  assert_sv(s.name, "pad");
  assert_sv(s.overload, "y");
  assert_true(arg(&s, "self")->writes && arg(&s, "self")->alias == 'a' && !arg(&s, "self")->kwarg_only);
  assert_true(arg(&s, "idx")->is_list && arg(&s, "idx")->elements_optional && !arg(&s, "idx")->is_optional);
  const tc_schema_arg *stride = arg(&s, "stride"), *size = arg(&s, "size");
  assert_int_equal(stride->list_size, 2);
  assert_int_equal(stride->preset.kind, TC_AK_INTS);
  assert_int_equal(stride->preset.n, 2);
  assert_int_equal(stride->preset.integers[1], 1);
  assert_int_equal(size->preset.integers[1], -1);
  assert_true(arg(&s, "eps")->kwarg_only);
  assert_int_equal(arg(&s, "eps")->preset.kind, TC_AK_FLOAT);
  assert_int_equal(arg(&s, "p")->preset.kind, TC_AK_FLOAT);
  assert_true(arg(&s, "p")->preset.real == 2);
  assert_int_equal(arg(&s, "s")->preset.kind, TC_AK_INT);
  assert_int_equal(arg(&s, "m")->preset.bools[1], 0);
  assert_sv(arg(&s, "mode")->preset.text, "a\n");
  assert_int_equal(arg(&s, "d")->preset.kind, TC_AK_NONE);
  assert_int_equal(arg(&s, "f")->preset.integer, TC_FORMAT_CONTIGUOUS);
  assert_true(arg(&s, "t")->is_optional && arg(&s, "dim")->is_optional && arg(&s, "dim")->list_size == 1);
  assert_int_equal(s.n_returns, 2);
  assert_true(s.returns[0].writes && s.returns[1].is_list);
  assert_sv(s.returns[0].name, "out");
  TC_TRY(tc_schema_parse(arena, TC_SV("relu(Tensor self) -> Tensor"), &s));
  assert_sv(s.ns, "aten");
  assert_int_equal(s.overload.size, 0);
  return TC_OK;
}

TC_TEST(damaged_schemas_are_refused) {
  static const char *const bad[] = {"",
                                    "f",
                                    "f(",
                                    "f()",
                                    "f() ->",
                                    "f(Tensor) -> Tensor",
                                    "f(Tensor a, Tensor a) -> Tensor",
                                    "f(Tensor a=) -> Tensor",
                                    "f(int[ a) -> Tensor",
                                    "f(int[0] a) -> Tensor",
                                    "f(Tensor a) -> Tensor x y",
                                    "f(Tensor(a! a) -> Tensor",
                                    "f(int a=[1) -> ()",
                                    "f(int a=zzz) -> ()",
                                    "f(int[2] a=99999999999999999999) -> ()"};
  tc_schema s;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tc_status got = tc_schema_parse(arena, tc_sv_of(bad[i]), &s);
    if (!got) fail_msg("'%s' parsed", bad[i]);
    tc_status_free(got);
  }
  // every prefix of a schema is refused or (after the return type) parses; none crashes
  for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
    for (size_t n = 0; n < strlen(schemas[i]); n++) tc_status_free(tc_schema_parse(arena, (tc_sv){schemas[i], n}, &s));
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(representative_schemas_parse),
                                     cmocka_unit_test(all_schemas_of_a_file_parse), cmocka_unit_test(parts_of_a_schema),
                                     cmocka_unit_test(damaged_schemas_are_refused)};
  return TC_RUN(tests);
}

"""The benchmark workloads in JAX: each takes the archive's inputs in order (parameters first)."""
import jax
import jax.numpy as jnp


def attention_b1(wq, wk, wv, x):
    q, k, v = x @ wq.T, x @ wk.T, x @ wv.T
    s = q @ jnp.swapaxes(k, -2, -1)
    p = jnp.exp(s) / jnp.sum(jnp.exp(s), axis=-1, keepdims=True)
    return p @ v


attention_b4 = attention_b1


def pointwise_chain_f32(x, y):
    return jax.nn.gelu(x * y + 1.5, approximate=True) * jax.nn.sigmoid(x) - y


def softmax_f32(x):
    return jax.nn.softmax(x, axis=-1)


def layernorm_residual_f32(x, r, w, b):
    s = x + r
    mean = s.mean(-1, keepdims=True)
    var = ((s - mean) ** 2).mean(-1, keepdims=True)
    return (s - mean) * jax.lax.rsqrt(var + 1e-5) * w + b


def rmsnorm_bf16(x, w):
    f = x.astype(jnp.float32)
    return (f * jax.lax.rsqrt((f * f).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * w


def sum_all_f32(x):
    return (x * x).sum()


def colsum_f32(x):
    return jax.nn.relu(x * 2 + 1).sum(0)


def many_small_launches(x, *ws):
    for w in ws:
        x = jnp.tanh(x @ w) * 0.5 + x
        x = x - x.mean(-1, keepdims=True)
    return x


def tiny_pointwise(x, y):
    return jax.nn.relu(x + y) * x


def complex_pointwise(x, y):
    return jnp.exp(x * y * 0.1) * x.conj() + y / (jnp.abs(x) + 1)


def complex_mul_add(x, y, z):
    return x * y + z


def complex_norm_rows(x):
    return x / jnp.sqrt((x.real**2 + x.imag**2).sum(-1, keepdims=True))


def complex_matmul(x, y):
    return x @ y


def complex_mlp_modrelu(x, w1, w2, b):
    h = x @ w1
    size = jnp.abs(h)
    return (jax.nn.relu(size + b) * h / (size + 1e-6)) @ w2


def rope_complex_bf16(q, k, turns):
    def turned(t):
        pairs = t.astype(jnp.float32).reshape(*t.shape[:-1], -1, 2)
        z = jax.lax.complex(pairs[..., 0], pairs[..., 1]) * turns[None, :, None, :]
        return jnp.stack([z.real, z.imag], -1).reshape(t.shape).astype(t.dtype)

    return turned(q), turned(k)


def fft_filter_c2c_4096(x, h):
    return jnp.fft.ifft(jnp.fft.fft(x) * h)


def fftconv_long(u, k, d):
    n = u.shape[-1]
    y = jnp.fft.irfft(jnp.fft.rfft(u, n=2 * n) * jnp.fft.rfft(k, n=2 * n), n=2 * n)[..., :n]
    return jax.nn.gelu(y + u * d[:, None], approximate=False)


def fno_spectral_conv2d(w1, w2, x):
    batch, channels, height, width = x.shape
    modes = w1.shape[-1]
    spectrum = jnp.fft.rfft2(x)
    out = jnp.zeros((batch, channels, height, width // 2 + 1), spectrum.dtype)
    out = out.at[:, :, :modes, :modes].set(jnp.einsum("bixy,ioxy->boxy", spectrum[:, :, :modes, :modes], w1))
    out = out.at[:, :, -modes:, :modes].set(jnp.einsum("bixy,ioxy->boxy", spectrum[:, :, -modes:, :modes], w2))
    return jnp.fft.irfft2(out, s=(height, width))


def log_spectrogram(x, window=None, size=1024, hop=256):
    window = 0.5 - 0.5 * jnp.cos(2 * jnp.pi * jnp.arange(size, dtype=x.dtype) / size) if window is None else window
    padded = jnp.pad(x, ((0, 0), (size // 2, size // 2)), mode="reflect")
    frames = 1 + (padded.shape[-1] - size) // hop
    at = hop * jnp.arange(frames)[:, None] + jnp.arange(size)[None, :]
    spectrum = jnp.swapaxes(jnp.fft.rfft(padded[:, at] * window), -1, -2)
    return jnp.log(spectrum.real**2 + spectrum.imag**2 + 1e-6)


def gpt_block_f32(ln1_w, ln1_b, ln2_w, ln2_b, qkv_w, qkv_b, proj_w, proj_b, fc1_w, fc1_b, fc2_w, fc2_b, x):
    batch, length, width = x.shape
    heads = 16

    def norm(t, w, b):
        f = t.astype(jnp.float32)
        mean = f.mean(-1, keepdims=True)
        var = ((f - mean) ** 2).mean(-1, keepdims=True)
        return ((f - mean) * jax.lax.rsqrt(var + 1e-5)).astype(t.dtype) * w + b

    qkv = (norm(x, ln1_w, ln1_b) @ qkv_w.T + qkv_b).reshape(batch, length, 3, heads, width // heads)
    a = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], is_causal=True)
    x = x + a.reshape(batch, length, width) @ proj_w.T + proj_b
    return x + jax.nn.gelu(norm(x, ln2_w, ln2_b) @ fc1_w.T + fc1_b, approximate=True) @ fc2_w.T + fc2_b


gpt_block_bf16 = gpt_block_f32

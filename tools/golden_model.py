"""The reference decoder behind tests/golden: every family of `dml list models` in plain torch, float64, written from the
published formulas and reading config.json by itself. It favors plainness over speed: a (T, T) mask says what a token
may see, autograd gives the gradients. Nothing here is shared with the C++ sources, so agreement means something.

A batch is a set of documents laid end to end: `positions` restart at every document, and no token sees another document.
Where a rope depends on the length of a text, it is the document's own.
"""
import json
import math
import struct

import torch
import torch.nn.functional as F

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16}


def write_safetensors(path, tensors, dtype="F32"):
    """8 bytes header length, JSON header padded with spaces to 8, raw little-endian rows in the order of the names."""
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(tensors):
        t = tensors[name].detach().to(DTYPES[dtype]).contiguous()
        raw = (t.view(torch.int16) if dtype == "BF16" else t).numpy().tobytes()
        header[name] = {"dtype": dtype, "shape": list(t.shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        blobs.append(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


class Names:
    """The tensor names of a family that differ from Llama's."""
    LLAMA = dict(embed="model.embed_tokens", positions="", layer="model.layers", final="model.norm", head="lm_head",
                 before_attention="input_layernorm", behind_attention="post_attention_layernorm",
                 before_mlp="post_attention_layernorm", behind_mlp="post_feedforward_layernorm",
                 q="self_attn.q_proj", k="self_attn.k_proj", v="self_attn.v_proj", qkv="", out="self_attn.o_proj",
                 q_norm="self_attn.q_norm", k_norm="self_attn.k_norm",
                 gate="mlp.gate_proj", up="mlp.up_proj", down="mlp.down_proj", gate_up="")
    UNLIKE = {
        "gpt2": dict(embed="transformer.wte", positions="transformer.wpe", layer="transformer.h", final="transformer.ln_f",
                     before_attention="ln_1", before_mlp="ln_2", qkv="attn.c_attn", out="attn.c_proj", up="mlp.c_fc",
                     down="mlp.c_proj"),
        "phi3": dict(qkv="self_attn.qkv_proj", gate_up="mlp.gate_up_proj"),
        "glm4": dict(behind_attention="post_self_attn_layernorm", before_mlp="post_attention_layernorm",
                     behind_mlp="post_mlp_layernorm", gate_up="mlp.gate_up_proj"),
        "glm": dict(gate_up="mlp.gate_up_proj"),
        "gemma2": dict(before_mlp="pre_feedforward_layernorm"),
        "gemma3_text": dict(before_mlp="pre_feedforward_layernorm"),
        "stablelm": dict(q_norm="self_attn.q_layernorm", k_norm="self_attn.k_layernorm"),
        "hunyuan_v1_dense": dict(q_norm="self_attn.query_layernorm", k_norm="self_attn.key_layernorm"),
        "apertus": dict(before_attention="attention_layernorm", before_mlp="feedforward_layernorm"),
        "starcoder2": dict(up="mlp.c_fc", down="mlp.c_proj"),
        "phi": dict(final="model.final_layernorm", out="self_attn.dense", up="mlp.fc1", down="mlp.fc2",
                    q_norm="self_attn.q_layernorm", k_norm="self_attn.k_layernorm"),
        "gpt_neox": dict(embed="gpt_neox.embed_in", layer="gpt_neox.layers", final="gpt_neox.final_layer_norm",
                         head="embed_out", qkv="attention.query_key_value", out="attention.dense",
                         up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h"),
        "falcon": dict(embed="transformer.word_embeddings", layer="transformer.h", final="transformer.ln_f",
                       qkv="self_attention.query_key_value", out="self_attention.dense", up="mlp.dense_h_to_4h",
                       down="mlp.dense_4h_to_h"),
    }

    UNLIKE["bloom"] = dict(UNLIKE["falcon"], embed_norm="transformer.word_embeddings_layernorm")
    UNLIKE["mpt"] = dict(embed="transformer.wte", layer="transformer.blocks", final="transformer.norm_f", before_attention="norm_1",
                         before_mlp="norm_2", qkv="attn.Wqkv", out="attn.out_proj", up="ffn.up_proj", down="ffn.down_proj")

    def __init__(self, kind):
        self.embed_norm = ""
        self.__dict__.update(self.LLAMA)
        self.__dict__.update(self.UNLIKE.get(kind, {}))


class Mixture:
    """The experts of a model, by the keys of its config and the names of its files."""
    QWEN = dict(router="mlp.gate", expert="mlp.experts.{}", gate="gate_proj", up="up_proj", down="down_proj", shared="mlp.shared_expert",
                shared_gate="mlp.shared_expert_gate", normalize=True, sigmoid=False, groups=1, of_groups=1, scale=1.0, shared_ffn=0)
    UNLIKE = {
        "mixtral": dict(router="block_sparse_moe.gate", expert="block_sparse_moe.experts.{}", gate="w1", up="w3", down="w2"),
        "granitemoe": dict(router="block_sparse_moe.router.layer", expert=""),
        "gpt_oss": dict(router="mlp.router", expert=""),
        "deepseek_v3": dict(shared="mlp.shared_experts", shared_gate="", sigmoid=True),
    }

    def __init__(self, raw):
        kind, get = raw["model_type"], raw.get
        self.__dict__.update(self.QWEN)
        self.__dict__.update(self.UNLIKE.get(kind, {}))
        self.kind = kind
        self.experts = get("n_routed_experts") or get("num_local_experts") or get("num_experts")
        self.chosen = raw["num_experts_per_tok"]
        self.ffn = get("moe_intermediate_size") or raw["intermediate_size"]
        self.shared_ffn = get("shared_expert_intermediate_size") or get("n_shared_experts", 0) * self.ffn
        self.normalize = get("norm_topk_prob", kind not in ("qwen2_moe", "qwen3_moe", "olmoe"))
        self.groups, self.of_groups = get("n_group", 1), get("topk_group", 1)
        self.scale = get("routed_scaling_factor", 1.0)
        self.dense = set(get("mlp_only_layers", [])) | set(range(get("first_k_dense_replace", 0)))

    def weights(self, x, linear, correction):
        """(T, experts): the weight of each expert, 0 if it was not selected."""
        scores = linear(x)
        p = scores.sigmoid() if self.sigmoid else scores.softmax(-1)
        ranked = p.detach() + (correction if self.sigmoid else 0)
        if self.groups > 1:                                     # groups by the sum of their two best
            of = ranked.view(len(x), self.groups, -1)
            best = of.topk(2, -1).values.sum(-1).topk(self.of_groups, -1).indices
            allowed = torch.zeros(len(x), self.groups, dtype=torch.bool).scatter(1, best, True)
            ranked = torch.where(allowed[..., None], of, -math.inf).flatten(1)
        chosen = torch.zeros_like(p, dtype=torch.bool).scatter(1, ranked.topk(self.chosen, -1).indices, True)
        p = p * chosen
        return (p / p.sum(-1, keepdim=True) if self.normalize else p) * self.scale


class Config:
    """config.json with the defaults of its model_type filled in."""

    def __init__(self, raw):
        self.raw = raw
        get = raw.get
        kind = self.kind = raw["model_type"]
        self.gemma = kind in ("gemma", "gemma2", "gemma3_text")
        self.gpt2 = kind == "gpt2"
        self.alibi = get("attn_config", {}).get("alibi_bias_max", 8) if kind in ("bloom", "mpt") else 0
        self.layer_norm = kind in ("bloom", "mpt", "stablelm", "gpt2", "cohere", "cohere2", "nemotron", "starcoder2", "phi", "gpt_neox", "falcon")
        self.norm_bias = self.layer_norm and kind != "mpt" and not kind.startswith("cohere")
        self.one_plus = self.gemma or kind == "nemotron"        # norms hold w - 1
        self.names = Names(kind)
        self.vocab = raw["vocab_size"]
        self.hidden, self.layers, self.heads = (
            next(raw[k] for k in keys if k in raw) for keys in
            (("n_embd", "d_model", "hidden_size"), ("n_layer", "n_layers", "num_hidden_layers"),
             ("n_head", "n_heads", "num_attention_heads")))
        self.moe = Mixture(raw) if "num_experts_per_tok" in raw else None
        self.kv = get("num_key_value_heads") or get("num_kv_heads") or self.heads
        if kind == "falcon" and not get("new_decoder_architecture"):
            self.kv = 1 if get("multi_query", True) else self.heads
        self.head_dim = get("head_dim") or self.hidden // self.heads
        self.ffn = (get("n_inner") or 4 * self.hidden) if self.gpt2 else get("intermediate_size") or get("ffn_hidden_size") or 4 * self.hidden
        self.positions = raw["n_positions"] if self.gpt2 else get("max_position_embeddings", 0)
        self.eps = next(raw[k] for k in ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps",
                                         "norm_epsilon") if k in raw)
        self.tied = get("tie_word_embeddings", self.gemma or self.gpt2 or self.alibi > 0)
        everywhere = get("use_bias", False) or get("bias", False) or kind in ("gpt2", "phi", "bloom")   # in attention and MLP
        self.qkv_bias = everywhere or {"qwen2": True, "qwen2_moe": True, "stablelm": get("use_qkv_bias", False)}.get(
            kind, get("attention_bias", False))
        self.out_bias = everywhere or get("attention_out_bias", get("attention_bias", False)
                                          if kind not in ("qwen2", "qwen2_moe", "stablelm", "glm", "glm4", "helium", "seed_oss") else False)
        self.mlp_bias = everywhere or kind == "gpt_neox" or get("mlp_bias", False)
        self.head_bias = kind == "phi"
        self.gated = kind not in ("gpt2", "arcee", "nemotron", "starcoder2", "phi", "gpt_neox", "apertus", "falcon", "bloom", "mpt")
        self.qk_norm = (kind in ("qwen3", "qwen3_moe", "gemma3_text", "exaone4", "hunyuan_v1_dense", "apertus")
                        or kind == "phi" and get("qk_layernorm"))
        self.norms_behind = kind in ("olmo2", "olmo3", "exaone4")
        self.sandwich = kind in ("gemma2", "gemma3_text", "glm4")
        self.one_norm = kind in ("cohere", "cohere2", "phi") or kind == "stablelm" and get("use_parallel_residual", False)
        if kind == "falcon":                                    # ln_attn and ln_mlp, one for both, or one behind the other
            two = get("new_decoder_architecture") and get("num_ln_in_parallel_attn", 2) == 2
            self.one_norm = get("parallel_attn", True) and not two
            if two:
                self.names.before_attention, self.names.before_mlp = "ln_attn", "ln_mlp"
        self.parallel = self.one_norm or get("use_parallel_residual", False) or get("new_decoder_architecture", False)
        self.width_norms = kind in ("olmo2", "olmo3", "olmoe")
        self.mla = kind == "deepseek_v3"
        self.activation = {"bloom": "gelu_new", "mpt": "gelu"}.get(kind) or get("hidden_activation") or get("hidden_act") or get("activation_function") or get("activation")
        self.scale = get("attention_multiplier") or (get("query_pre_attn_scalar") or self.head_dim) ** -0.5
        self.residual = get("residual_multiplier", 1.0)
        self.logit_scale = get("logit_scale", 1.0) / get("logits_scaling", 1.0)
        self.interleaved = kind in ("deepseek_v3", "cohere", "cohere2", "glm", "glm4", "ernie4_5", "helium") and get("rope_interleave", True)
        self.clip = get("clip_qkv")
        if not get("scale_attn_weights", True):
            self.scale = 1.0
        self.scales = [self.scale / (i + 1) if get("scale_attn_by_inverse_layer_idx") else self.scale
                       for i in range(self.layers)]
        self.head_norms = kind == "stablelm" and get("qk_layernorm", False)
        self.stacked_norms = get("use_qk_norm", False)
        self.attn_cap = get("attn_logit_softcapping") if kind == "gemma2" else None
        self.final_cap = get("final_logit_softcapping") if kind == "gemma2" else None
        window = get("sliding_window")
        self.windows = [0] * self.layers
        if "layer_types" in raw and (kind != "smollm3" or get("use_sliding_window")):
            self.windows = [window if t == "sliding_attention" else 0 for t in raw["layer_types"]]
        elif kind in ("mistral", "phi3", "starcoder2"):
            self.windows = [window or 0] * self.layers
        elif kind == "gemma2":
            self.windows = [window if i % 2 == 0 else 0 for i in range(self.layers)]
        self.turns = [True] * self.layers
        if kind == "cohere2" or kind == "exaone4" and window:   # full layers have no rope
            self.turns = [w > 0 for w in self.windows]
        elif kind == "smollm3":
            self.turns = [t == 1 for t in raw["no_rope_layers"]]
        rope = dict(get("rope_parameters") or get("rope_scaling") or {})
        if "full_attention" in rope:
            rope = rope["full_attention"]
        self.theta = rope.get("rope_theta") or get("rope_theta") or get("rotary_emb_base", 10000.0)
        self.scaling = rope
        self.original = (get("original_max_position_embeddings") or rope.get("original_max_position_embeddings")
                         or self.positions)
        self.scaling_type = rope.get("rope_type", rope.get("type", "default"))
        self.rotary = int(self.head_dim * get("rotary_pct", get("partial_rotary_factor",
                                                                rope.get("partial_rotary_factor", 1.0))))
        if "alpha" in rope:                                     # HunYuan: a larger base, whatever the length
            self.theta *= rope["alpha"] ** (self.head_dim / (self.head_dim - 2))
            self.scaling_type = "default"
        self.embedding_scale = get("embedding_multiplier", 1.0)
        if self.gemma:
            storage = {"float32": torch.float32, "bfloat16": torch.bfloat16}[get("torch_dtype") or get("dtype")]
            self.embedding_scale = float(torch.tensor(self.hidden ** 0.5, dtype=storage))


def inverse_frequencies(c, length):
    """(inv_freq (rotary / 2), factor on cos and sin) for documents of up to `length` tokens; see modeling_rope_utils."""
    d, s, kind = c.rotary, c.scaling, c.scaling_type
    j = torch.arange(0, d, 2, dtype=torch.float64)
    inv = c.theta ** (-j / d)
    original = c.original
    if kind == "default":
        return inv, 1.0
    if kind == "linear":
        return inv / s["factor"], 1.0
    if kind == "dynamic":
        if length <= c.positions:
            return inv, 1.0
        base = c.theta * (s["factor"] * length / c.positions - (s["factor"] - 1)) ** (d / (d - 2))
        return base ** (-j / d), 1.0
    if kind == "llama3":
        low, high, factor = s["low_freq_factor"], s["high_freq_factor"], s["factor"]
        wavelength = 2 * math.pi / inv
        smooth = (original / wavelength - low) / (high - low)
        middle = (1 - smooth) * inv / factor + smooth * inv
        out = torch.where(wavelength > original / low, inv / factor, inv)
        between = (wavelength <= original / low) & (wavelength >= original / high)
        return torch.where(between, middle, out), 1.0
    if kind == "yarn":
        factor = s["factor"]

        def correction(turns):
            return d * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(c.theta))

        low = max(math.floor(correction(s.get("beta_fast", 32))), 0)
        high = min(math.ceil(correction(s.get("beta_slow", 1))), d - 1)
        if not s.get("truncate", True):
            low, high = max(correction(s.get("beta_fast", 32)), 0), min(correction(s.get("beta_slow", 1)), d - 1)
        ramp = ((torch.arange(d // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
        if s.get("mscale") and s.get("mscale_all_dim"):
            attention = yarn_scale(s, "mscale") / yarn_scale(s, "mscale_all_dim")
        else:
            attention = s.get("attention_factor") or 0.1 * math.log(factor) + 1
        return inv / factor * ramp + inv * (1 - ramp), attention
    if kind in ("longrope", "su"):
        factors = s["long_factor"] if length > original else s["short_factor"]
        ratio = s.get("factor") or c.positions / original
        attention = s.get("attention_factor") or math.sqrt(1 + math.log(max(ratio, 1)) / math.log(original))
        return inv / torch.tensor(factors, dtype=torch.float64), attention
    raise ValueError(kind)


def yarn_scale(scaling, key):
    return 0.1 * scaling.get(key, 0) * math.log(scaling.get("factor", 1)) + 1


def rope_tables(c, positions, layer, lengths):
    """cos, sin (T, rotary); `lengths` (T): of the document that each token is in."""
    wide = (c.rotary + 1) // 2 * 2                              # an odd share of a head is rounded up to pairs
    cos, sin = (torch.empty(len(positions), wide, dtype=torch.float64) for _ in range(2))
    for length in set(lengths.tolist()):
        of = lengths == length
        cos[of], sin[of] = tables_of_length(c, positions[of], layer, length)
    return cos, sin


def tables_of_length(c, positions, layer, length):
    if c.kind in ("gemma3_text", "olmo3") and c.windows[layer]:   # a rope of their own, without scaling
        theta = c.raw.get("rope_local_base_freq", c.theta)
        inv = theta ** (-torch.arange(0, c.rotary, 2, dtype=torch.float64) / c.rotary)
        factor = 1.0
    else:
        inv, factor = inverse_frequencies(c, length)
    angle = torch.outer(positions.double(), inv)
    angle = angle.repeat_interleave(2, -1) if c.interleaved else torch.cat([angle, angle], -1)
    return angle.cos() * factor, angle.sin() * factor


def rotate(x, cos, sin, interleaved):
    """x (heads, T, head_dim): pairs of the first cos.shape[-1] elements are rotated, the rest is unchanged."""
    d = cos.shape[-1]
    turned, rest = x[..., :d], x[..., d:]
    if interleaved:
        half = torch.stack([-turned[..., 1::2], turned[..., ::2]], -1).flatten(-2)
    else:
        half = torch.cat([-turned[..., d // 2:], turned[..., :d // 2]], -1)
    return torch.cat([turned * cos + half * sin, rest], -1)


def alibi_slopes(c):
    """As transformers' build_alibi_tensor() of BLOOM has them."""
    def of_power(n):
        start = 2.0 ** -(c.alibi / n)
        return [start ** i for i in range(1, n + 1)]

    power = 2 ** math.floor(math.log2(c.heads))
    slopes = of_power(power) + of_power(2 * power)[0::2][:c.heads - power]
    return torch.tensor(slopes, dtype=torch.float64)


ACTIVATIONS = {
    "silu": F.silu,
    "gelu_pytorch_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
}
ACTIVATIONS["gelu_new"] = ACTIVATIONS["gelu_pytorch_tanh"]
ACTIVATIONS["gelu"] = lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
ACTIVATIONS["relu2"] = lambda x: x.clamp(min=0) ** 2


class Decoder:
    """weights: name → float64 tensor, names as in the Hugging Face file. adapters: module → (A (r, in), B (out, r))."""

    def __init__(self, config, weights, adapters=None, adapter_scale=0.0):
        self.c, self.w, self.adapters, self.adapter_scale = config, weights, adapters or {}, adapter_scale
        self.length = None                                      # of the whole text, where a call has a part of it

    def remember(self, layer, k, v):
        return k, v

    def head_norm(self, x, name):
        """x (T, heads, E): LayerNorm of every head with its own weight, no bias."""
        w = (self.w[name + ".weight"] if self.c.stacked_norms else
             torch.stack([self.w[f"{name}.norms.{h}.weight"] for h in range(x.shape[1])]))
        x = x - x.mean(-1, keepdim=True)
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.c.eps) * w

    def linear(self, x, name):
        w = self.w[name + ".weight"]
        y = x @ (w if self.c.gpt2 else w.T)                     # GPT-2 stores (in, out)
        if name + ".bias" in self.w:
            y = y + self.w[name + ".bias"]
        if name in self.adapters:
            a, b = self.adapters[name]
            y = y + self.adapter_scale * (x @ a.T) @ b.T
        return y

    def norm(self, x, name):
        w = self.w[name + ".weight"]
        if self.c.one_plus:
            w = 1 + w
        if self.c.layer_norm:
            x = x - x.mean(-1, keepdim=True)
        x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.c.eps) * w
        return x + self.w[name + ".bias"] if name + ".bias" in self.w else x

    def project(self, x, prefix):
        """q (T, H, E), k and v (T, K, E)."""
        c, n = self.c, self.c.names
        T, H, K, E = x.shape[0], c.heads, c.kv, c.head_dim
        if c.kind in ("gpt_neox", "falcon", "bloom"):                    # of each key/value head its queries, its key, its value
            q, k, v = self.linear(x, prefix + n.qkv).view(T, K, H // K + 2, E).split([H // K, 1, 1], 2)
            return q.reshape(T, H, E), k.squeeze(2), v.squeeze(2)
        if n.qkv:
            q, k, v = self.linear(x, prefix + n.qkv).split([H * E, K * E, K * E], -1)
        else:
            q, k, v = (self.linear(x, prefix + name) for name in (n.q, n.k, n.v))
        if c.width_norms:                                       # over the whole width
            q, k = self.norm(q, prefix + n.q_norm), self.norm(k, prefix + n.k_norm)
        if c.clip:
            q, k, v = (t.clamp(-c.clip, c.clip) for t in (q, k, v))
        return q.view(T, H, E), k.view(T, K, E), v.view(T, K, E)

    def normed(self, q, k, prefix):
        c, n = self.c, self.c.names
        norm = self.head_norm if c.head_norms or c.stacked_norms else self.norm if c.qk_norm else None
        return (norm(q, prefix + n.q_norm), norm(k, prefix + n.k_norm)) if norm else (q, k)

    def turned(self, q, k, layer, positions, document):
        c = self.c
        if c.gpt2 or c.alibi or not c.turns[layer]:
            return q, k
        lengths = (torch.bincount(document)[document] if self.length is None
                   else torch.full((len(positions),), self.length))
        cos, sin = rope_tables(c, positions, layer, lengths)
        return tuple(rotate(t.transpose(0, 1), cos, sin, c.interleaved).transpose(0, 1) for t in (q, k))

    def attention(self, x, layer, prefix, positions, document):
        c = self.c
        T, H, K, E = x.shape[0], c.heads, c.kv, c.head_dim
        if c.mla:
            return self.latent_attention(x, layer, prefix, positions, document)
        q, k, v = self.project(x, prefix)
        if c.kind == "hunyuan_v1_dense":
            q, k = self.normed(*self.turned(q, k, layer, positions, document), prefix)
        else:
            q, k = self.turned(*self.normed(q, k, prefix), layer, positions, document)
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        k, v = self.remember(layer, k, v)
        k, v = k.repeat_interleave(H // K, 0), v.repeat_interleave(H // K, 0)
        scores = q @ k.transpose(1, 2) * c.scales[layer]
        if c.attn_cap:
            scores = c.attn_cap * torch.tanh(scores / c.attn_cap)
        before = k.shape[1] - T                                 # tokens of earlier calls: CachedDecoder
        distance = torch.arange(before, before + T)[:, None] - torch.arange(before + T)[None, :]
        if c.alibi:
            scores = scores - alibi_slopes(c)[:, None, None] * distance
        seen = distance >= 0
        seen[:, before:] &= document[:, None] == document[None, :]
        if c.windows[layer]:
            seen &= distance < c.windows[layer]
        scores = scores.masked_fill(~seen, -math.inf)
        if prefix + "self_attn.sinks" in self.w:                # a further score, of a value that is zero
            sink = self.w[prefix + "self_attn.sinks"][:, None, None].expand(H, T, 1)
            out = torch.cat([scores, sink], -1).softmax(-1)[..., :-1] @ v
        else:
            out = scores.softmax(-1) @ v
        return self.linear(out.transpose(0, 1).reshape(T, H * E), prefix + c.names.out)

    def latent_attention(self, x, layer, prefix, positions, document):
        c, p = self.c, prefix + "self_attn."
        T, H = x.shape[0], c.heads
        nope, rope, value, rank = (c.raw[k] for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank"))

        def low_norm(y, name):                                  # its epsilon is 1e-6 whatever the config says
            return y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-6) * self.w[p + name + ".weight"]

        asked = (self.linear(x, p + "q_proj") if c.raw["q_lora_rank"] is None else
                 self.linear(low_norm(self.linear(x, p + "q_a_proj"), "q_a_layernorm"), p + "q_b_proj"))
        q = asked.view(T, H, nope + rope)
        low = self.linear(x, p + "kv_a_proj_with_mqa")
        kv = self.linear(low_norm(low[:, :rank], "kv_a_layernorm"), p + "kv_b_proj").view(T, H, nope + value)
        q_turned, k_turned = self.turned(q[..., nope:], low[:, None, rank:], layer, positions, document)
        q = torch.cat([q[..., :nope], q_turned], -1)
        k = torch.cat([kv[..., :nope], k_turned.expand(T, H, rope)], -1)
        scores = torch.einsum("thd,shd->hts", q, k) * (nope + rope) ** -0.5 * yarn_scale(c.scaling, "mscale_all_dim") ** 2
        seen = (torch.arange(T)[:, None] >= torch.arange(T)) & (document[:, None] == document)
        out = torch.einsum("hts,shd->thd", scores.masked_fill(~seen, -math.inf).softmax(-1), kv[..., nope:])
        return self.linear(out.reshape(T, H * value), p + "o_proj")

    def expert(self, x, prefix, e):
        """The output of expert e for every token; most are not used."""
        m, w = self.c.moe, self.w
        if m.kind == "granitemoe":                              # (E, 2F, D), gate first
            gate, up = (x @ w[prefix + "block_sparse_moe.input_linear.weight"][e].T).chunk(2, -1)
            return (F.silu(gate) * up) @ w[prefix + "block_sparse_moe.output_linear.weight"][e].T
        if m.kind == "gpt_oss":                                 # (E, D, 2F), columns of gate and up in turn
            p = prefix + "mlp.experts."
            both = x @ w[p + "gate_up_proj"][e] + w[p + "gate_up_proj_bias"][e]
            gate, up = both[:, ::2].clamp(max=7.0), both[:, 1::2].clamp(-7.0, 7.0)
            return ((up + 1) * gate * torch.sigmoid(1.702 * gate)) @ w[p + "down_proj"][e] + w[p + "down_proj_bias"][e]
        return self.gated(x, prefix + m.expert.format(e) + ".")

    def gated(self, x, p):
        m = self.c.moe
        return self.linear(F.silu(self.linear(x, p + m.gate)) * self.linear(x, p + m.up), p + m.down)

    def mixture(self, x, prefix):
        m = self.c.moe
        weights = m.weights(x, lambda y: self.linear(y, prefix + m.router), self.w.get(prefix + m.router + ".e_score_correction_bias"))
        out = sum(weights[:, e:e + 1] * self.expert(x, prefix, e) for e in range(m.experts))
        if not m.shared_ffn:
            return out
        shared = self.gated(x, prefix + m.shared + ".")
        if m.shared_gate:
            shared = shared * torch.sigmoid(self.linear(x, prefix + m.shared_gate))
        return out + shared

    def act(self, x, prefix):
        if self.c.activation != "xielu":
            return ACTIVATIONS[self.c.activation](x)
        w = {k: self.w[prefix + "mlp.act_fn." + k] for k in ("alpha_p", "alpha_n", "beta", "eps")}
        positive, negative = F.softplus(w["alpha_p"]), w["beta"] + F.softplus(w["alpha_n"])
        return torch.where(x > 0, positive * x * x + w["beta"] * x,
                           (torch.expm1(torch.minimum(x, w["eps"])) - x) * negative + w["beta"] * x)

    def mlp(self, x, prefix):
        n = self.c.names
        if self.c.moe and int(prefix.split(".")[-2]) not in self.c.moe.dense:
            return self.mixture(x, prefix)
        if not self.c.gated:
            return self.linear(self.act(self.linear(x, prefix + n.up), prefix), prefix + n.down)
        if n.gate_up:
            gate, up = self.linear(x, prefix + n.gate_up).chunk(2, -1)
        else:
            gate, up = self.linear(x, prefix + n.gate), self.linear(x, prefix + n.up)
        return self.linear(self.act(gate, prefix) * up, prefix + n.down)

    def layer(self, x, i, positions, document):
        c, n = self.c, self.c.names
        p = f"{n.layer}.{i}."

        def attend(h):
            return self.attention(h, i, p, positions, document)

        if c.norms_behind:                                      # none in front
            x = x + self.norm(attend(x), p + n.behind_attention)
            return x + self.norm(self.mlp(x, p), p + n.behind_mlp)
        h = self.norm(x, p + n.before_attention)
        if c.parallel:
            return x + attend(h) + self.mlp(h if c.one_norm else self.norm(x, p + n.before_mlp), p)
        if c.sandwich:                                          # in front and behind
            x = x + self.norm(attend(h), p + n.behind_attention)
            return x + self.norm(self.mlp(self.norm(x, p + n.before_mlp), p), p + n.behind_mlp)
        x = x + c.residual * attend(h)
        return x + c.residual * self.mlp(self.norm(x, p + n.before_mlp), p)

    def logits(self, batch):
        c, w, n = self.c, self.w, self.c.names
        tokens, positions = torch.tensor(batch["tokens"]), torch.tensor(batch["positions"])
        starts = batch["starts"]
        document = torch.cat([torch.full((e - s,), i) for i, (s, e) in enumerate(zip(starts, starts[1:]))])
        embedding = w[n.embed + ".weight"]
        x = embedding[tokens] * c.embedding_scale
        if n.embed_norm:
            x = self.norm(x, n.embed_norm)
        if n.positions:
            x = x + w[n.positions + ".weight"][positions]
        for i in range(c.layers):
            x = self.layer(x, i, positions, document)
        x = self.norm(x, n.final)
        out = x @ embedding.T + w.get(n.head + ".bias", 0) if c.tied else self.linear(x, n.head)
        out = out * c.logit_scale
        return c.final_cap * torch.tanh(out / c.final_cap) if c.final_cap else out

    def token_losses(self, batch):
        """(T) −log p(label), 0 where the label is −100."""
        return F.cross_entropy(self.logits(batch), torch.tensor(batch["labels"]), ignore_index=-100, reduction="none")


class CachedDecoder(Decoder):
    """Generation as transformers does it: keys keep the angles they were cached with. A rope that goes by the length takes
    the length so far; where longrope goes over to its long factors, the whole text is read again, as Phi-3's
    prepare_inputs_for_generation does (for the other families, too)."""

    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.text, self.cache = [], {}

    def remember(self, layer, k, v):
        if layer in self.cache:
            k, v = (torch.cat(pair, 1) for pair in zip(self.cache[layer], (k, v)))
        self.cache[layer] = k, v
        return k, v

    def read(self, tokens):
        """Logits (V) after the last of these tokens, which follow those read before."""
        if self.c.scaling_type == "longrope" and len(self.text) <= self.c.original < len(self.text) + len(tokens):
            tokens, self.text, self.cache = self.text + tokens, [], {}
        first = len(self.text)
        self.text = self.text + tokens
        self.length = len(self.text)
        batch = dict(tokens=tokens, positions=list(range(first, self.length)), starts=[0, len(tokens)])
        return self.logits(batch)[-1]

    def greedy(self, prompt, count):
        """(tokens, log-probabilities) of `count` tokens, each the most likely one."""
        tokens, logprobs, fresh = [], [], prompt
        for _ in range(count):
            p = self.read(fresh).log_softmax(-1)
            fresh = [int(p.argmax())]
            tokens += fresh
            logprobs.append(p[fresh[0]].item())
        return tokens, logprobs


def expert_shapes(c):
    """Tensors of a layer, after its prefix."""
    m, D, Fn, E = c.moe, c.hidden, c.moe.ffn, c.moe.experts
    shapes = {m.router + ".weight": (E, D)}
    if m.kind == "granitemoe":
        shapes["block_sparse_moe.input_linear.weight"], shapes["block_sparse_moe.output_linear.weight"] = (E, 2 * Fn, D), (E, D, Fn)
    elif m.kind == "gpt_oss":
        shapes.update({m.router + ".bias": (E,), "mlp.experts.gate_up_proj": (E, D, 2 * Fn), "mlp.experts.gate_up_proj_bias": (E, 2 * Fn),
                       "mlp.experts.down_proj": (E, Fn, D), "mlp.experts.down_proj_bias": (E, D)})
    modules = [(m.expert.format(e), Fn) for e in range(E)] if m.expert else []
    if m.sigmoid:
        shapes[m.router + ".e_score_correction_bias"] = (E,)
    if m.shared_ffn:
        modules.append((m.shared, m.shared_ffn))
        if m.shared_gate:
            shapes[m.shared_gate + ".weight"] = (1, D)
    for module, width in modules:
        for name, shape in ((m.gate, (width, D)), (m.up, (width, D)), (m.down, (D, width))):
            shapes[f"{module}.{name}.weight"] = shape
    return shapes


def tensor_shapes(c):
    """Every tensor of the model's file: name → shape."""
    D, V, Fn, H, K, E = c.hidden, c.vocab, c.ffn, c.heads * c.head_dim, c.kv * c.head_dim, c.head_dim
    n, shapes = c.names, {}

    def linear(name, rows, cols, bias):
        shapes[name + ".weight"] = (cols, rows) if c.gpt2 else (rows, cols)
        if bias:
            shapes[name + ".bias"] = (rows,)

    def norm(name, width=D, bias=c.norm_bias):
        shapes[name + ".weight"] = (width,)
        if bias:
            shapes[name + ".bias"] = (width,)

    shapes[n.embed + ".weight"] = (V, D)
    if n.embed_norm:
        norm(n.embed_norm)
    if n.positions:
        shapes[n.positions + ".weight"] = (c.positions, D)
    def norms_of_layer(p):
        if c.norms_behind:
            return norm(p + n.behind_attention), norm(p + n.behind_mlp)
        norm(p + n.before_attention)
        if c.sandwich:
            norm(p + n.behind_attention)
        if not c.one_norm:
            norm(p + n.before_mlp)
        if c.sandwich:
            norm(p + n.behind_mlp)

    for i in range(c.layers):
        p = f"{n.layer}.{i}."
        if c.gpt2:
            norms_of_layer(p)
        projections = [(n.qkv, H + 2 * K)] if n.qkv else [(n.q, H), (n.k, K), (n.v, K)]
        if c.mla:
            nope, rope, value, rank, low = (c.raw[k] for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
                                                               "kv_lora_rank", "q_lora_rank"))
            a = p + "self_attn."
            if low is None:
                linear(a + "q_proj", c.heads * (nope + rope), D, False)
            else:
                linear(a + "q_a_proj", low, D, c.qkv_bias), norm(a + "q_a_layernorm", low)
                linear(a + "q_b_proj", c.heads * (nope + rope), low, False)
            linear(a + "kv_a_proj_with_mqa", rank + rope, D, c.qkv_bias), norm(a + "kv_a_layernorm", rank)
            projections, H = [("self_attn.kv_b_proj", c.heads * (nope + value))], c.heads * value
        for name, rows in projections:
            linear(p + name, rows, rank if c.mla else D, c.qkv_bias and not c.mla)
        if c.kind == "gpt_oss":
            shapes[p + "self_attn.sinks"] = (c.heads,)
        if c.gpt2:
            linear(p + n.out, D, H, c.out_bias)
        ups = [(n.gate_up, 2 * Fn)] if n.gate_up else [(n.gate, Fn), (n.up, Fn)] if c.gated else [(n.up, Fn)]
        sparse = c.moe and i not in c.moe.dense
        for name, rows in ups if not sparse else ():
            linear(p + name, rows, D, c.mlp_bias)
        if not c.gpt2:
            linear(p + n.out, D, H, c.out_bias)
        if sparse:
            shapes.update({p + k: v for k, v in expert_shapes(c).items()})
        else:
            linear(p + n.down, D, Fn, c.mlp_bias)
        if c.activation == "xielu":
            shapes.update({p + "mlp.act_fn.alpha_p": (1,), p + "mlp.act_fn.alpha_n": (1,),
                           p + "mlp.act_fn.beta": (), p + "mlp.act_fn.eps": ()})
        if c.qk_norm:
            norm(p + n.q_norm, E, c.kind == "phi"), norm(p + n.k_norm, E, c.kind == "phi")
        if c.stacked_norms:
            shapes[p + n.q_norm + ".weight"], shapes[p + n.k_norm + ".weight"] = (c.heads, E), (c.kv, E)
        for h in range(c.heads if c.head_norms else 0):
            shapes[p + f"{n.q_norm}.norms.{h}.weight"] = (E,)
        for h in range(c.kv if c.head_norms else 0):
            shapes[p + f"{n.k_norm}.norms.{h}.weight"] = (E,)
        if c.width_norms:
            norm(p + n.q_norm, H), norm(p + n.k_norm, K)
        if not c.gpt2:
            norms_of_layer(p)
    norm(n.final)
    if not c.tied:
        linear(n.head, V, D, c.head_bias)
    elif c.head_bias:
        shapes[n.head + ".bias"] = (V,)
    return shapes

"""The reference decoder behind tests/golden: every family of `dml list models` in plain torch, float64, written from the
published formulas and reading config.json by itself. It favours plainness over speed: a (T, T) mask says what a token
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


class Config:
    """config.json with the defaults of its model_type filled in."""

    def __init__(self, raw):
        self.raw = raw
        get = raw.get
        kind = self.kind = raw["model_type"]
        self.gemma = kind in ("gemma", "gemma2", "gemma3_text")
        self.gpt2 = kind == "gpt2"
        self.layer_norm = kind in ("stablelm", "gpt2")
        self.vocab = raw["vocab_size"]
        self.hidden = raw["n_embd"] if self.gpt2 else raw["hidden_size"]
        self.layers = raw["n_layer"] if self.gpt2 else raw["num_hidden_layers"]
        self.heads = raw["n_head"] if self.gpt2 else raw["num_attention_heads"]
        self.kv = get("num_key_value_heads") or self.heads
        self.head_dim = get("head_dim") or self.hidden // self.heads
        self.ffn = (get("n_inner") or 4 * self.hidden) if self.gpt2 else raw["intermediate_size"]
        self.positions = raw["n_positions"] if self.gpt2 else raw["max_position_embeddings"]
        self.eps = next(raw[k] for k in ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon") if k in raw)
        self.tied = get("tie_word_embeddings", self.gemma or self.gpt2)
        self.qkv_bias = {"qwen2": True, "gpt2": True, "stablelm": get("use_qkv_bias", False)}.get(
            kind, get("attention_bias", False))
        self.out_bias = get("attention_bias", False) if kind not in ("qwen2", "stablelm") else False
        self.mlp_bias = self.gpt2 or get("mlp_bias", False)
        self.qk_norm = kind in ("qwen3", "gemma3_text")
        self.parallel = get("use_parallel_residual", False)
        self.act = get("hidden_activation") or get("hidden_act") or get("activation_function")
        self.scale = (get("query_pre_attn_scalar") or self.head_dim) ** -0.5
        if not get("scale_attn_weights", True):
            self.scale = 1.0
        self.scales = [self.scale / (i + 1) if get("scale_attn_by_inverse_layer_idx") else self.scale
                       for i in range(self.layers)]
        self.head_norms = get("qk_layernorm", False)
        self.attn_cap = get("attn_logit_softcapping") if kind == "gemma2" else None
        self.final_cap = get("final_logit_softcapping") if kind == "gemma2" else None
        window = get("sliding_window")
        self.windows = [0] * self.layers
        if kind in ("mistral", "phi3"):
            self.windows = [window or 0] * self.layers
        elif kind == "gemma2":
            self.windows = [window if i % 2 == 0 else 0 for i in range(self.layers)]
        elif kind == "gemma3_text":
            self.windows = [window if t == "sliding_attention" else 0 for t in raw["layer_types"]]
        rope = dict(get("rope_parameters") or get("rope_scaling") or {})
        self.theta = rope.get("rope_theta") or get("rope_theta", 10000.0)
        self.scaling = rope
        self.original = (get("original_max_position_embeddings") or rope.get("original_max_position_embeddings")
                         or self.positions)
        self.scaling_type = rope.get("rope_type", rope.get("type", "default"))
        self.rotary = int(self.head_dim * get("partial_rotary_factor", rope.get("partial_rotary_factor", 1.0)))
        self.embedding_scale = 1.0
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
        ramp = ((torch.arange(d // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
        attention = s.get("attention_factor") or 0.1 * math.log(factor) + 1
        return inv / factor * ramp + inv * (1 - ramp), attention
    if kind in ("longrope", "su"):
        factors = s["long_factor"] if length > original else s["short_factor"]
        ratio = s.get("factor") or c.positions / original
        attention = s.get("attention_factor") or math.sqrt(1 + math.log(max(ratio, 1)) / math.log(original))
        return inv / torch.tensor(factors, dtype=torch.float64), attention
    raise ValueError(kind)


def rope_tables(c, positions, layer, lengths):
    """cos, sin (T, rotary); `lengths` (T): of the document that each token is in."""
    cos, sin = torch.empty(len(positions), c.rotary, dtype=torch.float64), torch.empty(len(positions), c.rotary,
                                                                                      dtype=torch.float64)
    for length in set(lengths.tolist()):
        of = lengths == length
        cos[of], sin[of] = tables_of_length(c, positions[of], layer, length)
    return cos, sin


def tables_of_length(c, positions, layer, length):
    if c.kind == "gemma3_text" and c.windows[layer]:
        inv = c.raw["rope_local_base_freq"] ** (-torch.arange(0, c.rotary, 2, dtype=torch.float64) / c.rotary)
        factor = 1.0
    else:
        inv, factor = inverse_frequencies(c, length)
    angle = torch.outer(positions.double(), inv)
    angle = torch.cat([angle, angle], -1)
    return angle.cos() * factor, angle.sin() * factor


def rotate(x, cos, sin):
    """x (heads, T, head_dim): rotate-half on the first cos.shape[-1] elements, the rest passes."""
    d = cos.shape[-1]
    turned, rest = x[..., :d], x[..., d:]
    half = torch.cat([-turned[..., d // 2:], turned[..., :d // 2]], -1)
    return torch.cat([turned * cos + half * sin, rest], -1)


ACTIVATIONS = {
    "silu": F.silu,
    "gelu_pytorch_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
}
ACTIVATIONS["gelu_new"] = ACTIVATIONS["gelu_pytorch_tanh"]


class Decoder:
    """weights: name → float64 tensor, names as in the Hugging Face file. adapters: module → (A (r, in), B (out, r))."""

    def __init__(self, config, weights, adapters=None, adapter_scale=0.0):
        self.c, self.w, self.adapters, self.adapter_scale = config, weights, adapters or {}, adapter_scale
        self.length = None                                      # of the whole text, where a call has a part of it

    def remember(self, layer, k, v):
        return k, v

    def head_norm(self, x, name):
        """x (T, heads, E): LayerNorm of every head with its own weight, no bias."""
        w = torch.stack([self.w[f"{name}.norms.{h}.weight"] for h in range(x.shape[1])])
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
        if self.c.layer_norm:
            x = x - x.mean(-1, keepdim=True)
            return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.c.eps) * w + self.w[name + ".bias"]
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.c.eps) * (1 + w if self.c.gemma else w)

    def attention(self, x, layer, prefix, positions, document):
        c = self.c
        T, H, K, E = x.shape[0], c.heads, c.kv, c.head_dim
        if c.gpt2:
            q, k, v = self.linear(x, prefix + "attn.c_attn").split([H * E, K * E, K * E], -1)
        elif c.kind == "phi3":
            q, k, v = self.linear(x, prefix + "self_attn.qkv_proj").split([H * E, K * E, K * E], -1)
        else:
            q, k, v = (self.linear(x, prefix + f"self_attn.{n}_proj") for n in "qkv")
        if c.kind == "olmo2":                                   # over the whole width
            q, k = self.norm(q, prefix + "self_attn.q_norm"), self.norm(k, prefix + "self_attn.k_norm")
        q, k, v = q.view(T, H, E), k.view(T, K, E), v.view(T, K, E)
        if c.qk_norm:                                           # over every head
            q, k = self.norm(q, prefix + "self_attn.q_norm"), self.norm(k, prefix + "self_attn.k_norm")
        if c.head_norms:                                        # a weight for every head
            q, k = self.head_norm(q, prefix + "self_attn.q_layernorm"), self.head_norm(k, prefix + "self_attn.k_layernorm")
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        if not c.gpt2:
            lengths = torch.bincount(document)[document] if self.length is None else torch.full((T,), self.length)
            cos, sin = rope_tables(c, positions, layer, lengths)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = self.remember(layer, k, v)
        k, v = k.repeat_interleave(H // K, 0), v.repeat_interleave(H // K, 0)
        scores = q @ k.transpose(1, 2) * c.scales[layer]
        if c.attn_cap:
            scores = c.attn_cap * torch.tanh(scores / c.attn_cap)
        before = k.shape[1] - T                                 # tokens of earlier calls: CachedDecoder
        distance = torch.arange(before, before + T)[:, None] - torch.arange(before + T)[None, :]
        seen = distance >= 0
        seen[:, before:] &= document[:, None] == document[None, :]
        if c.windows[layer]:
            seen &= distance < c.windows[layer]
        out = scores.masked_fill(~seen, -math.inf).softmax(-1) @ v
        return self.linear(out.transpose(0, 1).reshape(T, H * E),
                           prefix + ("attn.c_proj" if c.gpt2 else "self_attn.o_proj"))

    def mlp(self, x, prefix):
        act = ACTIVATIONS[self.c.act]
        if self.c.gpt2:
            return self.linear(act(self.linear(x, prefix + "mlp.c_fc")), prefix + "mlp.c_proj")
        if self.c.kind == "phi3":
            gate, up = self.linear(x, prefix + "mlp.gate_up_proj").chunk(2, -1)
        else:
            gate, up = self.linear(x, prefix + "mlp.gate_proj"), self.linear(x, prefix + "mlp.up_proj")
        return self.linear(act(gate) * up, prefix + "mlp.down_proj")

    def layer(self, x, i, positions, document):
        c = self.c
        p = f"transformer.h.{i}." if c.gpt2 else f"model.layers.{i}."

        def attend(h):
            return self.attention(h, i, p, positions, document)

        if c.gpt2:
            x = x + attend(self.norm(x, p + "ln_1"))
            return x + self.mlp(self.norm(x, p + "ln_2"), p)
        if c.kind == "olmo2":                                   # norms behind, none in front
            x = x + self.norm(attend(x), p + "post_attention_layernorm")
            return x + self.norm(self.mlp(x, p), p + "post_feedforward_layernorm")
        h = self.norm(x, p + "input_layernorm")
        if c.parallel:
            return x + attend(h) + self.mlp(h, p)
        if c.kind in ("gemma2", "gemma3_text"):                 # in front and behind
            x = x + self.norm(attend(h), p + "post_attention_layernorm")
            h = self.mlp(self.norm(x, p + "pre_feedforward_layernorm"), p)
            return x + self.norm(h, p + "post_feedforward_layernorm")
        x = x + attend(h)
        return x + self.mlp(self.norm(x, p + "post_attention_layernorm"), p)

    def logits(self, batch):
        c, w = self.c, self.w
        tokens, positions = torch.tensor(batch["tokens"]), torch.tensor(batch["positions"])
        starts = batch["starts"]
        document = torch.cat([torch.full((e - s,), i) for i, (s, e) in enumerate(zip(starts, starts[1:]))])
        embedding = w["transformer.wte.weight" if c.gpt2 else "model.embed_tokens.weight"]
        x = embedding[tokens] * c.embedding_scale
        if c.gpt2:
            x = x + w["transformer.wpe.weight"][positions]
        for i in range(c.layers):
            x = self.layer(x, i, positions, document)
        x = self.norm(x, "transformer.ln_f" if c.gpt2 else "model.norm")
        out = x @ embedding.T if c.tied else self.linear(x, "lm_head")
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
        """Logits (V) behind the last of the tokens that follow those read before."""
        if self.c.scaling_type == "longrope" and len(self.text) <= self.c.original < len(self.text) + len(tokens):
            tokens, self.text, self.cache = self.text + tokens, [], {}
        first = len(self.text)
        self.text = self.text + tokens
        self.length = len(self.text)
        batch = dict(tokens=tokens, positions=list(range(first, self.length)), starts=[0, len(tokens)])
        return self.logits(batch)[-1]

    def greedy(self, prompt, count):
        """(tokens, log-probabilities) of `count` tokens, each the likeliest."""
        tokens, logprobs, fresh = [], [], prompt
        for _ in range(count):
            p = self.read(fresh).log_softmax(-1)
            fresh = [int(p.argmax())]
            tokens += fresh
            logprobs.append(p[fresh[0]].item())
        return tokens, logprobs


def tensor_shapes(c):
    """Every tensor of the model's file: name → shape."""
    D, V, Fn, H, K, E = c.hidden, c.vocab, c.ffn, c.heads * c.head_dim, c.kv * c.head_dim, c.head_dim
    shapes = {}

    def linear(name, rows, cols, bias):
        shapes[name + ".weight"] = (cols, rows) if c.gpt2 else (rows, cols)
        if bias:
            shapes[name + ".bias"] = (rows,)

    def norm(name, width=D):
        shapes[name + ".weight"] = (width,)
        if c.layer_norm:
            shapes[name + ".bias"] = (width,)

    if c.gpt2:
        shapes["transformer.wte.weight"], shapes["transformer.wpe.weight"] = (V, D), (c.positions, D)
        for i in range(c.layers):
            p = f"transformer.h.{i}."
            norm(p + "ln_1"), norm(p + "ln_2")
            linear(p + "attn.c_attn", 3 * D, D, True), linear(p + "attn.c_proj", D, D, True)
            linear(p + "mlp.c_fc", Fn, D, True), linear(p + "mlp.c_proj", D, Fn, True)
        norm("transformer.ln_f")
        return shapes
    shapes["model.embed_tokens.weight"] = (V, D)
    for i in range(c.layers):
        p = f"model.layers.{i}."
        if c.kind == "phi3":
            linear(p + "self_attn.qkv_proj", H + 2 * K, D, False), linear(p + "mlp.gate_up_proj", 2 * Fn, D, False)
        else:
            linear(p + "self_attn.q_proj", H, D, c.qkv_bias)
            linear(p + "self_attn.k_proj", K, D, c.qkv_bias), linear(p + "self_attn.v_proj", K, D, c.qkv_bias)
            linear(p + "mlp.gate_proj", Fn, D, c.mlp_bias), linear(p + "mlp.up_proj", Fn, D, c.mlp_bias)
        linear(p + "self_attn.o_proj", D, H, c.out_bias)
        linear(p + "mlp.down_proj", D, Fn, c.mlp_bias)
        if c.qk_norm:
            norm(p + "self_attn.q_norm", E), norm(p + "self_attn.k_norm", E)
        for h in range(c.heads if c.head_norms else 0):
            shapes[p + f"self_attn.q_layernorm.norms.{h}.weight"] = (E,)
        for h in range(c.kv if c.head_norms else 0):
            shapes[p + f"self_attn.k_layernorm.norms.{h}.weight"] = (E,)
        if c.kind == "olmo2":
            norm(p + "self_attn.q_norm", H), norm(p + "self_attn.k_norm", K)
            norm(p + "post_attention_layernorm"), norm(p + "post_feedforward_layernorm")
        else:
            norm(p + "input_layernorm")
            if not c.parallel:
                norm(p + "post_attention_layernorm")
            if c.kind in ("gemma2", "gemma3_text"):
                norm(p + "pre_feedforward_layernorm"), norm(p + "post_feedforward_layernorm")
    norm("model.norm")
    if not c.tied:
        linear("lm_head", V, D, False)
    return shapes

#!/usr/bin/python3
"""Writes tests/golden: small random models of every family with what a correct trainer computes from them.

    /usr/bin/python3 tools/make_golden.py [--family NAME ...] [--output tests/golden]

Needs Debian's python3-torch. The format is described in tests/golden/README.md; the formulas are in golden_model.py.
"""
import argparse
import copy
import json
import math
import os
import shutil

import torch

from golden_model import CachedDecoder, Config, Decoder, tensor_shapes, write_safetensors

BASE = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, hidden_act="silu", max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0,
            tie_word_embeddings=False, torch_dtype="bfloat16", initializer_range=0.02, bos_token_id=1, eos_token_id=2)
GEMMA = dict(hidden_size=40, head_dim=8, hidden_act=None, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
             tie_word_embeddings=True, bos_token_id=2, eos_token_id=1, pad_token_id=0)
LAYER_NORM = dict(layer_norm_eps=1e-5, rms_norm_eps=None)
NEOX = dict(hidden_act="gelu", num_key_value_heads=None, rope_theta=None, rotary_emb_base=10000, rotary_pct=0.4)
FALCON = dict(layer_norm_eps=None, layer_norm_epsilon=1e-5, intermediate_size=None, num_key_value_heads=None,
              hidden_act=None, activation="gelu", alibi=False, tie_word_embeddings=True)
STABLELM = dict(num_attention_heads=2, num_key_value_heads=2, partial_rotary_factor=0.25, use_qkv_bias=True,
                layer_norm_eps=1e-5, rms_norm_eps=None)


EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, rms_norm_eps=1e-6)
LOCAL = dict(num_experts=None, num_local_experts=4)
ALIBI = dict(layer_norm_epsilon=1e-5, rms_norm_eps=None, rope_theta=None, hidden_act=None, max_position_embeddings=None,
             intermediate_size=None, num_hidden_layers=None, num_attention_heads=None, num_key_value_heads=None, tie_word_embeddings=True)


def family(architecture, model_type, *changes, **more):
    config = dict(architectures=[architecture], model_type=model_type, **BASE)
    for change in (*changes, more):
        config.update(change)
    return {k: v for k, v in config.items() if v is not None or k == "q_lora_rank" or k == "hidden_act" and config["model_type"] not in ("falcon", "bloom", "mpt")}


# One line per family: its differences from Llama.
FAMILIES = {
    "llama_tiny": family("LlamaForCausalLM", "llama", vocab_size=97, torch_dtype="float32"),
    "llama_bias": family("LlamaForCausalLM", "llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                         rope_theta=None, torch_dtype=None, dtype="bfloat16",
                         rope_parameters=dict(rope_type="default", rope_theta=500000.0)),  # version 5's dialect
    "mistral": family("MistralForCausalLM", "mistral", head_dim=12, sliding_window=5, rope_theta=1e6),
    "qwen2": family("Qwen2ForCausalLM", "qwen2", tie_word_embeddings=True, use_sliding_window=False, sliding_window=4,
                    max_window_layers=1, rope_theta=1e6, bos_token_id=None),
    "qwen3": family("Qwen3ForCausalLM", "qwen3", head_dim=12, attention_bias=False, rope_theta=1e6,
                    use_sliding_window=False, rms_norm_eps=1e-6),
    "gemma": family("GemmaForCausalLM", "gemma", GEMMA, num_key_value_heads=1, torch_dtype="float32"),
    "gemma2": family("Gemma2ForCausalLM", "gemma2", GEMMA, query_pre_attn_scalar=11, attn_logit_softcapping=2.0,
                     final_logit_softcapping=3.0, sliding_window=5),
    "gemma3": family("Gemma3ForCausalLM", "gemma3_text", GEMMA, query_pre_attn_scalar=11, sliding_window=5,
                     rope_theta=1e6, rope_local_base_freq=10000.0, rope_scaling=dict(rope_type="linear", factor=8.0),
                     num_hidden_layers=3, sliding_window_pattern=3,
                     layer_types=["sliding_attention", "sliding_attention", "full_attention"]),
    "phi3": family("Phi3ForCausalLM", "phi3", num_attention_heads=2, num_key_value_heads=1, partial_rotary_factor=0.5,
                   sliding_window=9, original_max_position_embeddings=32, max_position_embeddings=128,
                   rope_scaling=dict(type="longrope", short_factor=[1.0, 1.1, 1.3, 1.7],
                                     long_factor=[1.0, 1.5, 3.0, 5.0])),
    "stablelm": family("StableLmForCausalLM", "stablelm", STABLELM, use_parallel_residual=False),
    "stablelm_parallel": family("StableLmForCausalLM", "stablelm", STABLELM, use_parallel_residual=True),
    "stablelm_heads": family("StableLmForCausalLM", "stablelm", STABLELM, num_attention_heads=4, qk_layernorm=True,
                             use_qkv_bias=False, partial_rotary_factor=0.5, use_parallel_residual=True),
    "olmo2": family("Olmo2ForCausalLM", "olmo2", attention_bias=False, rms_norm_eps=1e-6, rope_theta=500000.0),
    "ministral": family("MinistralForCausalLM", "ministral", head_dim=12, sliding_window=4,
                        layer_types=["sliding_attention", "full_attention"]),
    "smollm3": family("SmolLM3ForCausalLM", "smollm3", num_hidden_layers=3, no_rope_layers=[1, 0, 1], mlp_bias=True,
                      use_sliding_window=True, sliding_window=6, tie_word_embeddings=True,
                      layer_types=["full_attention", "sliding_attention", "full_attention"]),
    "arcee": family("ArceeForCausalLM", "arcee", hidden_act="relu2", attention_bias=True, mlp_bias=True),
    "seed_oss": family("SeedOssForCausalLM", "seed_oss", head_dim=12, attention_bias=True, attention_out_bias=False,
                       mlp_bias=True),
    "ernie4_5": family("Ernie4_5ForCausalLM", "ernie4_5", head_dim=12, use_bias=True, tie_word_embeddings=True),
    "helium": family("HeliumForCausalLM", "helium", attention_bias=True, mlp_bias=True, head_dim=8),
    "hunyuan": family("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", head_dim=12, attention_bias=True,
                      rope_scaling=dict(type="dynamic", alpha=50.0, factor=1.0)),
    "granite": family("GraniteForCausalLM", "granite", embedding_multiplier=3.0, residual_multiplier=0.4,
                      attention_multiplier=0.3, logits_scaling=1.6, mlp_bias=True),
    "olmo3": family("Olmo3ForCausalLM", "olmo3", sliding_window=5, num_hidden_layers=3, attention_bias=True,
                    rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32),
                    layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "exaone4": family("Exaone4ForCausalLM", "exaone4", sliding_window=5, num_hidden_layers=3,
                      layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "glm": family("GlmForCausalLM", "glm", head_dim=12, partial_rotary_factor=0.5, attention_bias=True),
    "glm4": family("Glm4ForCausalLM", "glm4", head_dim=12, partial_rotary_factor=0.5, attention_bias=True),
    "cohere": family("CohereForCausalLM", "cohere", LAYER_NORM, tie_word_embeddings=True, logit_scale=0.4,
                     use_qk_norm=True, attention_bias=True),
    "cohere2": family("Cohere2ForCausalLM", "cohere2", LAYER_NORM, tie_word_embeddings=True, logit_scale=0.4,
                      sliding_window=5, layer_types=["sliding_attention", "full_attention"]),
    "nemotron": family("NemotronForCausalLM", "nemotron", LAYER_NORM, layer_norm_eps=None, norm_eps=1e-5,
                       hidden_act="relu2", partial_rotary_factor=0.5, mlp_bias=True),
    "starcoder2": family("Starcoder2ForCausalLM", "starcoder2", LAYER_NORM, layer_norm_eps=None, norm_epsilon=1e-5,
                         hidden_act="gelu_pytorch_tanh", use_bias=True, sliding_window=7, tie_word_embeddings=True),
    "phi": family("PhiForCausalLM", "phi", LAYER_NORM, hidden_act="gelu_new", partial_rotary_factor=0.5,
                  qk_layernorm=True),
    "phi_tied": family("PhiForCausalLM", "phi", LAYER_NORM, hidden_act="gelu_new", partial_rotary_factor=0.5,
                       num_key_value_heads=None, tie_word_embeddings=True),
    "apertus": family("ApertusForCausalLM", "apertus", hidden_act="xielu", attention_bias=True, torch_dtype="float32",
                      rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=32)),
    "gpt_neox": family("GPTNeoXForCausalLM", "gpt_neox", LAYER_NORM, NEOX, attention_bias=True,
                       use_parallel_residual=True),
    "gpt_neox_serial": family("GPTNeoXForCausalLM", "gpt_neox", LAYER_NORM, NEOX, rotary_pct=1.0,
                              use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True),
    "falcon": family("FalconForCausalLM", "falcon", LAYER_NORM, FALCON, multi_query=True, parallel_attn=True),
    "falcon_groups": family("FalconForCausalLM", "falcon", LAYER_NORM, FALCON, num_kv_heads=2, bias=True,
                            new_decoder_architecture=True, tie_word_embeddings=False),
    "falcon_serial": family("FalconForCausalLM", "falcon", LAYER_NORM, FALCON, multi_query=False, parallel_attn=False,
                            bias=True, ffn_hidden_size=48),
    "bloom": family("BloomForCausalLM", "bloom", ALIBI, n_layer=2, n_head=4),
    "mpt": family("MptForCausalLM", "mpt", ALIBI, hidden_size=None, d_model=36, n_layers=2, n_heads=6, max_seq_len=64, no_bias=True,
                  attn_config=dict(alibi=True, alibi_bias_max=8)),   # heads that are no power of two
    "mixtral": family("MixtralForCausalLM", "mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "qwen2_moe": family("Qwen2MoeForCausalLM", "qwen2_moe", EXPERTS, shared_expert_intermediate_size=40, norm_topk_prob=False,
                        num_hidden_layers=3, mlp_only_layers=[1]),
    "qwen3_moe": family("Qwen3MoeForCausalLM", "qwen3_moe", EXPERTS, head_dim=12, norm_topk_prob=True),
    "olmoe": family("OlmoeForCausalLM", "olmoe", EXPERTS, norm_topk_prob=False, moe_intermediate_size=None),
    "olmoe_clip": family("OlmoeForCausalLM", "olmoe", EXPERTS, norm_topk_prob=True, moe_intermediate_size=None, clip_qkv=1.1,
                         attention_bias=True),
    "granitemoe": family("GraniteMoeForCausalLM", "granitemoe", EXPERTS, LOCAL, moe_intermediate_size=None, embedding_multiplier=3.0,
                         attention_multiplier=0.3, residual_multiplier=0.4, logits_scaling=1.6),
    "gpt_oss": family("GptOssForCausalLM", "gpt_oss", EXPERTS, LOCAL, moe_intermediate_size=None, head_dim=12, attention_bias=True,
                      sliding_window=5, layer_types=["sliding_attention", "full_attention"], initial_context_length=None,
                      rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=32.0,
                                        beta_slow=1.0, truncate=False)),
    "deepseek_v3": family("DeepseekV3ForCausalLM", "deepseek_v3", n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2,
                          moe_intermediate_size=24, n_shared_experts=2, first_k_dense_replace=1, q_lora_rank=20, kv_lora_rank=12,
                          qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, norm_topk_prob=True, routed_scaling_factor=2.5,
                          num_key_value_heads=4, head_dim=4),
    "deepseek_v3_plain": family("DeepseekV3ForCausalLM", "deepseek_v3", n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
                                moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=0, q_lora_rank=None, kv_lora_rank=12,
                                qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=12, norm_topk_prob=False, routed_scaling_factor=1.5,
                                num_key_value_heads=4, head_dim=4, attention_bias=True, rope_interleave=False,
                                rope_scaling=dict(type="yarn", factor=4.0, mscale=1.0, mscale_all_dim=0.8,
                                                  original_max_position_embeddings=16)),
    "gpt2": dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", vocab_size=61, n_embd=32, n_layer=2, n_head=4,
                 n_positions=24, n_inner=48, activation_function="gelu_new", layer_norm_epsilon=1e-5,
                 torch_dtype="bfloat16", bos_token_id=1, eos_token_id=1),
}

FAMILIES["gpt2_scaled"] = dict(FAMILIES["gpt2"], scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True,
                               n_layer=3)

# Changes to llama_tiny's config; `long` runs one document longer than the positions the model was first trained on.
LLAMA_ROPE = {
    "linear": dict(rope_scaling=dict(type="linear", factor=4.0), max_position_embeddings=256),
    "llama3": dict(rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                     original_max_position_embeddings=96), max_position_embeddings=768),
    "yarn": dict(rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
                 max_position_embeddings=256),
    "dynamic": dict(rope_scaling=dict(type="dynamic", factor=2.0), max_position_embeddings=32),
    "longrope": dict(rope_scaling=dict(rope_type="longrope", original_max_position_embeddings=32,
                                       short_factor=[1.0, 1.05, 1.2, 1.4], long_factor=[1.0, 1.8, 3.5, 7.0]),
                     max_position_embeddings=256),
}

LORA_RANK, LORA_ALPHA = 4, 8
ADAMW = dict(lr=2e-3, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.01, steps=10)


def random_weights(c, generator, storage):
    """Large enough that every term shows in the result: scores of order one, norms away from one, biases that matter."""
    weights = {}
    for name, shape in tensor_shapes(c).items():
        if name.endswith((".beta", ".eps")):                    # constants of an xIELU
            weights[name] = torch.tensor(0.5 if name.endswith("beta") else -1e-6, dtype=storage).double()
            continue
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        if len(shape) == 1:
            norm = "norm" in name or ".ln_" in name
            x = 0.2 * x + (1 if norm and name.endswith("weight") and not c.one_plus else 0)
        elif "norm" in name:                                    # of every head a row
            x = 1 + 0.2 * x
        elif name.endswith("_bias"):                            # of stacked experts
            x = 0.2 * x
        elif len(shape) == 3:
            x = x * (1.1 / math.sqrt(shape[1] if c.kind == "gpt_oss" else shape[2]))
        elif c.moe and name.endswith(c.moe.router + ".weight"):  # experts that are far apart
            x = x * (3 / math.sqrt(shape[1]))
        elif name in (c.names.embed + ".weight", c.names.positions + ".weight"):
            x = x * (0.2 if c.tied else 0.4)
        else:
            x = x * (1.1 / math.sqrt(shape[0] if c.gpt2 else shape[1]))
        weights[name] = x.to(storage).double()
    return weights


def make_batch(vocab, generator, lengths, masked):
    """Documents end to end; `masked` tokens at the head of each are a prompt and not trained."""
    tokens, labels, positions, starts = [], [], [], [0]
    for length, prompt in zip(lengths, masked):
        ids = torch.randint(3, vocab, (length,), generator=generator).tolist()
        tokens += ids
        labels += [ids[t + 1] if t + 1 >= prompt else -100 for t in range(length - 1)] + [-100]
        positions += range(length)
        starts.append(len(tokens))
    return dict(tokens=tokens, labels=labels, positions=list(positions), starts=starts)


def packed_batch(c, generator):
    # a long one, one of a single token, one that is all prompt, and ordinary ones
    return make_batch(c.vocab, generator, [17, 1, 9, 4, 12], [5, 0, 0, 4, 7])


def trainable(tensors):
    return {k: v.clone().requires_grad_(v.dim() > 0) for k, v in tensors.items()}


def loss_of(model, batch):
    losses = model.token_losses(batch)
    learned = sum(label != -100 for label in batch["labels"])
    return losses, losses.sum() / learned


def write_json(path, value):
    """One line per key."""
    with open(path, "w") as f:
        f.write("{\n" + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in value.items()) + "\n}\n")


def expected(model, batch, folder):
    """Writes logits and losses; returns the mean loss for backward."""
    losses, mean = loss_of(model, batch)
    write_safetensors(os.path.join(folder, "logits.safetensors"), {"logits": model.logits(batch)})
    write_json(os.path.join(folder, "loss.json"),
               dict(sum=losses.sum().item(), mean=mean.item(),
                    learned=sum(label != -100 for label in batch["labels"]),
                    tokens=[round(x, 9) for x in losses.tolist()]))
    return mean


def adamw_losses(parameters, loss):
    matrices = [p for p in parameters if p.dim() > 1]
    vectors = [p for p in parameters if p.dim() == 1]
    optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=ADAMW["weight_decay"]),
                                   dict(params=vectors, weight_decay=0.0)],
                                  lr=ADAMW["lr"], betas=tuple(ADAMW["betas"]), eps=ADAMW["eps"])
    losses = []
    for _ in range(ADAMW["steps"]):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def make_lora(c, weights, generator):
    """A and B of every linear layer inside the decoder layers, B not zero so that A has a gradient too."""
    adapters = {}
    for name, w in weights.items():
        module, kind = name.rsplit(".", 1)
        if kind != "weight" or w.dim() != 2 or "norm" in name or not (".layers." in name or ".h." in name or ".blocks." in name):
            continue
        if c.moe and (module.endswith(c.moe.router) or module.endswith("shared_expert_gate")):
            continue
        rows, cols = (w.shape[1], w.shape[0]) if c.gpt2 else w.shape
        a = torch.randn((LORA_RANK, cols), generator=generator, dtype=torch.float64) / math.sqrt(cols)
        b = torch.randn((rows, LORA_RANK), generator=generator, dtype=torch.float64) * 0.2
        adapters[module] = tuple(t.float().double() for t in (a, b))
    return adapters


def adapter_tensors(adapters):
    out = {}
    for module, (a, b) in adapters.items():
        out[f"base_model.model.{module}.lora_A.weight"] = a
        out[f"base_model.model.{module}.lora_B.weight"] = b
    return out


def trainable_lora(adapters):
    return {m: tuple(t.clone().requires_grad_(True) for t in ab) for m, ab in adapters.items()}


def write_family(name, raw, folder, rope_root=None):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    c = Config(raw)
    storage = "BF16" if "bfloat16" in (raw.get("torch_dtype"), raw.get("dtype")) else "F32"
    weights = random_weights(c, generator, torch.bfloat16 if storage == "BF16" else torch.float32)
    batch = packed_batch(c, generator)

    shutil.rmtree(folder, ignore_errors=True)
    for sub in ("model", "full", "lora"):
        os.makedirs(os.path.join(folder, sub))
    write_json(os.path.join(folder, "model/config.json"), raw)
    write_safetensors(os.path.join(folder, "model/model.safetensors"), weights, storage)
    write_json(os.path.join(folder, "batch.json"), batch)

    full = trainable(weights)
    expected(Decoder(c, full), batch, os.path.join(folder, "full")).backward()
    write_safetensors(os.path.join(folder, "full/gradients.safetensors"), {k: torch.zeros_like(v) if v.grad is None else v.grad for k, v in full.items()
                       if v.dim() and not k.endswith("e_score_correction_bias")})

    adapters = make_lora(c, weights, generator)
    scale = LORA_ALPHA / LORA_RANK
    write_safetensors(os.path.join(folder, "lora/adapter_model.safetensors"), adapter_tensors(adapters))
    write_json(os.path.join(folder, "lora/adapter_config.json"),
               dict(base_model_name_or_path=None, bias="none", fan_in_fan_out=c.gpt2, lora_alpha=LORA_ALPHA,
                    lora_dropout=0.0, peft_type="LORA", r=LORA_RANK,
                    target_modules=sorted({m.rsplit(".", 1)[1] for m in adapters}), task_type="CAUSAL_LM",
                    use_dora=False, use_rslora=False))
    lora = trainable_lora(adapters)
    expected(Decoder(c, weights, lora, scale), batch, os.path.join(folder, "lora")).backward()
    write_safetensors(os.path.join(folder, "lora/gradients.safetensors"),
                      adapter_tensors({m: tuple(torch.zeros_like(t) if t.grad is None else t.grad for t in ab)
                                       for m, ab in lora.items()}))

    if name == "llama_tiny":
        write_dft(c, weights, adapters, scale, batch, os.path.join(folder, "lora"))
        full, lora = trainable(weights), trainable_lora(adapters)
        run = dict(ADAMW, schedule="constant")
        run["full_losses"] = adamw_losses(list(full.values()), lambda: loss_of(Decoder(c, full), batch)[1])
        run["lora_losses"] = adamw_losses([t for ab in lora.values() for t in ab],
                                          lambda: loss_of(Decoder(c, weights, lora, scale), batch)[1])
        write_json(os.path.join(folder, "adamw.json"), run)
        write_rope(raw, weights, batch, rope_root)


def write_dft(c, weights, adapters, scale, batch, folder):
    """Dynamic Fine-Tuning: the mean of -sg(p) log p over the trained tokens, and its gradients."""
    lora = trainable_lora(adapters)
    losses, _ = loss_of(Decoder(c, weights, lora, scale), batch)
    mean = (losses.detach().neg().exp() * losses).sum() / sum(label != -100 for label in batch["labels"])
    mean.backward()
    write_json(os.path.join(folder, "dft.json"), dict(mean=mean.item()))
    write_safetensors(os.path.join(folder, "dft_gradients.safetensors"),
                      adapter_tensors({m: tuple(t.grad for t in ab) for m, ab in lora.items()}))


def write_rope(raw, weights, batch, root):
    """Rope scalings on llama_tiny's weights: `short` is llama_tiny's batch, `long` one document of 48 tokens."""
    shutil.rmtree(root, ignore_errors=True)
    generator = torch.Generator().manual_seed(48)
    long = make_batch(raw["vocab_size"], generator, [48], [6])
    for name, changes in LLAMA_ROPE.items():
        changed = copy.deepcopy(raw)
        changed.update(changes)
        c = Config(changed)
        for length, data in (("short", batch), ("long", long)):
            folder = os.path.join(root, name, length)
            os.makedirs(folder)
            write_json(os.path.join(folder, "batch.json"), data)
            full = trainable(weights)
            expected(Decoder(c, full), data, folder)
        write_json(os.path.join(root, name, "config.json"), changed)
        if name in ("dynamic", "longrope"):
            write_rope_of_documents(c, weights, os.path.join(root, name))


def write_rope_of_documents(c, weights, root):
    """`mixed`: documents on both sides of the length where the rope changes, with gradients; `greedy.json`: texts that grow
    past it, one of which begins past it."""
    generator = torch.Generator().manual_seed(49)
    folder = os.path.join(root, "mixed")
    os.makedirs(folder)
    mixed = make_batch(c.vocab, generator, [40, 9, 33, 32, 47], [3, 0, 30, 5, 0])
    write_json(os.path.join(folder, "batch.json"), mixed)
    full = trainable(weights)
    expected(Decoder(c, full), mixed, folder).backward()
    write_safetensors(os.path.join(folder, "gradients.safetensors"), {k: v.grad for k, v in full.items()})
    texts = []
    for length in (27, 12, 36, 31):
        prompt = torch.randint(3, c.vocab, (length,), generator=generator).tolist()
        tokens, logprobs = CachedDecoder(c, weights).greedy(prompt, 12)
        texts.append(dict(prompt=prompt, tokens=tokens, logprobs=[round(x, 9) for x in logprobs]))
    write_json(os.path.join(root, "greedy.json"), dict(texts=texts))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", nargs="*", choices=list(FAMILIES), help="default: all")
    parser.add_argument("--output", default=os.path.join(here, "../tests/golden"))
    a = parser.parse_args()
    torch.set_num_threads(1)
    for name in a.family or FAMILIES:
        folder = os.path.join(a.output, name)
        write_family(name, FAMILIES[name], folder, os.path.join(a.output, "llama_rope"))
        print(name, "loss", json.load(open(os.path.join(folder, "full/loss.json")))["mean"])


if __name__ == "__main__":
    main()

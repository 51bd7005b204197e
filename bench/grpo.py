"""A GRPO step compared with its parts; called by bench/grpo.sh."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

DML = os.path.abspath(os.environ["DML"])
TOKENIZER = os.path.abspath("datasets/quickstart/tokenizer")


def run(words):
    print("  dml " + " ".join(words[:1]) + " …", file=sys.stderr, flush=True)
    done = subprocess.run([DML, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stderr}")
    return done.stderr


def write(path, rows):
    with open(path, "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)


def recipe(folder, name, **keys):
    path = os.path.join(folder, name + ".yml")
    with open(path, "w") as f:
        for key, value in dict(keys, output_dir=f"{folder}/{name}", dataset_prepared_path=f"{folder}/prepared", save_strategy="no").items():
            f.write(f"{key}: {json.dumps(value)}\n")
    return path


def steps_of(folder, name):
    """Without the first step, which includes page faults."""
    with open(f"{folder}/{name}/metrics.jsonl") as f:
        lines = [json.loads(line) for line in f]
    return [line for line in lines if "event" not in line and "step_s" in line][1:]


def main():
    parser = argparse.ArgumentParser(prog="bench/grpo.sh")
    parser.add_argument("--smoke", action="store_true")
    for option, value in dict(steps=4, generations=8, length=64, prompts=8, hidden=512, layers=8).items():
        parser.add_argument("--" + option, type=int, default=value)
    a = parser.parse_args()
    if a.smoke:
        a.steps, a.generations, a.length, a.prompts, a.hidden, a.layers = 2, 2, 8, 2, 128, 1
    count = a.prompts * a.generations
    shape = dict(model_type="llama", vocab_size=2048, hidden_size=a.hidden, intermediate_size=4 * a.hidden, num_hidden_layers=a.layers,
                 num_attention_heads=a.hidden // 64, num_key_value_heads=max(1, a.hidden // 128), max_position_embeddings=512,
                 rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
    with tempfile.TemporaryDirectory() as folder:
        text = "Tell me about the river that runs north of the old town, number "
        write(f"{folder}/prompts.jsonl", [{"prompt": f"{text}{i}."} for i in range(a.prompts * a.steps)])
        write(f"{folder}/all.jsonl", [{"prompt": f"{text}{i}."} for i in range(a.prompts) for _ in range(a.generations)])
        write(f"{folder}/rows.jsonl", [{"instruction": "Say something.", "output": "It is a word. " * 200}] * count)
        base = dict(sequence_len=256, micro_batch_size=a.generations, batch_size=count, learning_rate=1e-6, max_steps=a.steps)
        run(["train", recipe(folder, "base", tokenizer_config=TOKENIZER, model_config=shape, **dict(base, max_steps=1),
                             datasets=[dict(path=f"{folder}/rows.jsonl", type="alpaca")], excess_length_strategy="truncate")])
        adapter = dict(base_model=f"{folder}/base", adapter="lora", lora_r=16, lora_alpha=32, lora_target_linear=True)
        run(["train", recipe(folder, "grpo", **adapter, **base, rl="grpo", rewards=[dict(length=100)],
                             trl=dict(num_generations=a.generations, max_completion_length=a.length),
                             datasets=[dict(path=f"{folder}/prompts.jsonl", type="alpaca")])])
        steps = steps_of(folder, "grpo")
        middle = {k: statistics.median(s[k] for s in steps) for k in ("step_s", "time/generation", "time/rewards", "tokens", "trained_tokens")}
        longest = round(middle["tokens"] / count)
        run(["train", recipe(folder, "supervised", **adapter, **dict(base, sequence_len=longest),
                             datasets=[dict(path=f"{folder}/rows.jsonl", type="alpaca")], num_epochs=a.steps, excess_length_strategy="truncate")])
        training = statistics.median(s["tok_s"] for s in steps_of(folder, "supervised"))
        said = run(["infer", f"{folder}/grpo.yml", "--adapter", "none", "--input", f"{folder}/all.jsonl", "--output", f"{folder}/answers.jsonl",
                    "--temperature", "1", "--max-new-tokens", str(a.length)])
        engine = float(re.search(r"at (\d+) tokens/s", said).group(1))
    ideal = middle["trained_tokens"] / engine + middle["tokens"] / training
    share = ideal / middle["step_s"]
    print(f"step {middle['step_s']:.2f} s: generation {middle['time/generation']:.2f}, rewards {middle['time/rewards']:.2f}; "
          f"{middle['trained_tokens']:.0f} of {middle['tokens']:.0f} tokens are written")
    print(f"engine {engine:.0f} tokens/s, training {training:.0f} tokens/s: {ideal:.2f} s")
    print(f"{'share of the step at the rates of engine and training':<72} >= 0.8   {share:6.2f}  {'pass' if share >= 0.8 else 'FAIL'}")
    sys.exit(share < 0.8 and not a.smoke)


if __name__ == "__main__":
    main()

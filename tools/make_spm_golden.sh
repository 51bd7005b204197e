#!/bin/sh
# Small SentencePiece models for tests/tokenizer, trained on text of our own:  make_spm_golden.sh OUT_DIR
# Needs spm_train (Debian package sentencepiece).
set -e
out=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for i in 1 2 3 4 5 6 7 8; do
  cat <<'TEXT'
The baker opens the shop at six and sells bread until noon.
In the afternoon she bakes cakes; on Sundays the shop is closed.
A small river runs behind the mill, and children fish there in summer.
Die Bäckerin öffnet den Laden um sechs Uhr und verkauft Brot bis Mittag.
Un petit café près du marché vend des gâteaux à midi.
1 2 3 10 200 3000 prices rise, prices fall (50% off!).
<tool> reads the file ... writes the file </tool>
read write reader writer reading writing rewrite
TEXT
done > "$tmp/text"
printf '41\t61\n42\t62\n66 69\tFB01\nFB01\t66 69\n3000\t20\n2460\t31\n' > "$tmp/rules.tsv"
common="--input=$tmp/text --num_threads=1 --hard_vocab_limit=false --minloglevel=2"
spm_train $common --model_prefix="$tmp/bpe" --model_type=bpe --vocab_size=420 --byte_fallback=true \
  --normalization_rule_name=identity --remove_extra_whitespaces=false --user_defined_symbols='<tool>,</tool>,pri' --control_symbols='<ctl>'
spm_train $common --model_prefix="$tmp/bpe_plain" --model_type=bpe --vocab_size=160 --normalization_rule_tsv="$tmp/rules.tsv" \
  --user_defined_symbols='bake'
spm_train $common --model_prefix="$tmp/unigram" --model_type=unigram --vocab_size=180 --normalization_rule_tsv="$tmp/rules.tsv" \
  --user_defined_symbols='<tool>,river'
spm_train $common --model_prefix="$tmp/unigram_bytes" --model_type=unigram --vocab_size=420 --byte_fallback=true \
  --normalization_rule_name=identity --treat_whitespace_as_suffix=true
for name in bpe bpe_plain unigram unigram_bytes; do cp "$tmp/$name.model" "$out/spm_$name.model"; done

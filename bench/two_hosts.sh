#!/bin/bash
# Two ranks on two hosts against one rank on one, over a link of a chosen rate: each host is a network namespace, joined by a
# veth pair whose ends a token bucket slows down. Needs root, iproute2 and Open MPI; sets up what it needs and takes it down.
#   bench/two_hosts.sh path/to/dml RECIPE [RATE] [-- MORE KEYS]     RATE like 1gbit (the default), or none
# Prints seconds a step on one rank, on two, and their ratio; the recipe's batch_size keeps the work the same.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "needs root for network namespaces" >&2; exit 2; }
dml=$(realpath "$1") recipe=$2 rate=${3:-1gbit}
shift $(($# < 3 ? $# : 3))
[ "${1:-}" != -- ] || shift
work=$(mktemp -d) first=dml-first-$$ second=dml-second-$$
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

clean() {
  ip netns del $first 2>/dev/null || true
  ip netns del $second 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT
ip netns add $first
ip netns add $second
ip link add dml0 netns $first type veth peer name dml0 netns $second
address=1
for host in $first $second; do
  ip -n $host address add 10.77.7.$address/24 dev dml0
  ip -n $host link set lo up
  ip -n $host link set dml0 up
  [ "$rate" = none ] || ip netns exec $host tc qdisc add dev dml0 root tbf rate "$rate" burst 256k latency 50ms
  address=$((address + 1))
done

# mpirun starts its daemon on the second host as `AGENT HOST COMMAND…`.
cat >"$work/agent" <<AGENT
#!/bin/bash
shift
exec ip netns exec $second unshare --uts sh -c 'hostname second; exec "\$@"' sh sh -c "\$*"
AGENT
chmod +x "$work/agent"
printf '10.77.7.1 slots=1\n10.77.7.2 slots=1\n' >"$work/hosts"

# Median seconds of a step, the first two left out.
median() { grep -v '"event"' "$1/metrics.jsonl" | grep -o '"step_s":[0-9.e-]*' | cut -d: -f2 | tail -n +3 | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

keys=(--threads 1 "$@")
"$dml" train "$recipe" --output_dir "$work/one" --resume none "${keys[@]}" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
ip netns exec $first mpirun --hostfile "$work/hosts" -np 2 --map-by node --bind-to none --mca plm_rsh_agent "$work/agent" \
  --mca btl self,tcp --mca btl_tcp_if_include dml0 --mca oob_tcp_if_include dml0 \
  "$dml" train "$recipe" --output_dir "$work/two" --resume none "${keys[@]}" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
one=$(median "$work/one") two=$(median "$work/two")
awk "BEGIN { printf \"%s at %s: one rank %.4f s a step, two hosts %.4f s, ratio %.2f\n\", \"$(basename "$recipe") $*\", \"$rate\", $one, $two, $one / $two }"
for file in "$work"/one/*.safetensors; do cmp "$file" "$work/two/$(basename "$file")"; done

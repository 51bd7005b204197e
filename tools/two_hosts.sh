#!/bin/bash
# Two hosts for one command: network namespaces joined by a veth pair with a rate limit at both ends. The command runs on the
# first one; $DML_HOSTFILE names both, and the environment tells Open MPI how to reach the second. Needs root, iproute2 and
# Open MPI; removes the namespaces at the end.
#   [RATE=1gbit|none] [SLOTS=1] tools/two_hosts.sh COMMAND …
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "needs root for network namespaces" >&2; exit 2; }
[ $# -gt 0 ] || { sed -n '2,6s/^# \?//p' "$0" >&2; exit 2; }
rate=${RATE:-1gbit} slots=${SLOTS:-1}
work=$(mktemp -d) first=dml-first-$$ second=dml-second-$$

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
  printf '10.77.7.%d slots=%d\n' $address "$slots" >>"$work/hosts"
  address=$((address + 1))
done

# mpirun starts its daemon on the second host as `AGENT HOST COMMAND…`.
cat >"$work/agent" <<AGENT
#!/bin/bash
shift
exec ip netns exec $second unshare --uts sh -c 'hostname second; exec "\$@"' sh sh -c "\$*"
AGENT
chmod +x "$work/agent"
export DML_HOSTFILE=$work/hosts DML_INTERFACE=dml0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=$work/agent
export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=dml0 OMPI_MCA_oob_tcp_if_include=dml0
ip netns exec $first "$@"

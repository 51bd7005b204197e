#!/bin/bash
# dml launch --submit slurm against a real Slurm on this host: a job is submitted, makes room for another with a higher priority, is
# requeued, resumes, and ends with the bits of a run that nobody disturbed.   tests/ops/slurm.sh build/release/dml
#
# munged, slurmctld and slurmd run from a temporary folder, listen on loopback only, and end with this script.
set -u
dml=$(realpath "$1")
source=$(cd "$(dirname "$0")/../.." && pwd)
for program in munged slurmctld slurmd sbatch srun scontrol squeue mungekey; do
  PATH=$PATH:/usr/sbin:/sbin
  command -v $program > /dev/null || { echo "skipped: there is no $program (packages slurm-wlm, munge)"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: slurmd needs root"; exit 0; }

dir=$(mktemp -d /tmp/dml-slurm-XXXXXX)
chmod 755 "$dir"
pids=()
finish() {
  code=$?
  for ((i = ${#pids[@]} - 1; i >= 0; --i)); do kill "${pids[i]}" 2> /dev/null; wait "${pids[i]}" 2> /dev/null; done
  if [ $code -ne 0 ]; then tail -n 30 "$dir"/*.log; fi
  rm -rf "$dir"
  exit $code
}
trap finish EXIT
fail() { echo "failed: $*"; exit 1; }
# until COMMAND, for so long as only a hang takes
until_true() {
  for ((n = 0; n < 5000; ++n)); do "$@" && return 0; sleep 0.1; done
  fail "this never came true: $*"
}

host=$(hostname -s)
port=$((20000 + RANDOM % 10000))
mkdir -p "$dir"/{state,spool,munge}
chmod 700 "$dir/munge"
mungekey --create --keyfile="$dir/munge/key"
munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge.sock" --pid-file="$dir/munge/pid" \
  --seed-file="$dir/munge/seed" --log-file="$dir/munge.log" > /dev/null 2>&1 &
pids+=($!)
cat > "$dir/slurm.conf" << END
ClusterName=dml-test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=10
ReturnToService=2
SchedulerParameters=batch_sched_delay=1,sched_min_interval=100000
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=30 MaxTime=INFINITE
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE
END
export SLURM_CONF=$dir/slurm.conf
until_true test -S "$dir/munge.sock"
slurmctld -D -i -f "$SLURM_CONF" > "$dir/slurmctld.log" 2>&1 &
pids+=($!)
slurmd -D -f "$SLURM_CONF" -N "$host" > "$dir/slurmd.log" 2>&1 &
pids+=($!)
ready() { [ "$(sinfo -h -p low -o %T 2> /dev/null)" = idle ]; }
until_true ready

cd "$dir" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
sed -e "s,datasets/,$source/datasets/,; s,examples/,$source/examples/,; s,outputs/,$dir/outputs/," "$source/examples/alpaca.yml" > run.yml
settings=(--max_steps 600 --save_strategy steps --save_steps 50 --gradient_accumulation_steps 2 --dataset_prepared_path "$dir/prepared" --num_epochs 600)
"$dml" launch -n 2 --threads 1 train run.yml "${settings[@]}" --output_dir "$dir/alone" > alone.log 2>&1 || fail "the undisturbed run"

said=$("$dml" launch --submit slurm --ranks-per-node 2 --threads 1 --time 60 train run.yml "${settings[@]}" --output_dir "$dir/job") ||
  fail "submitting: $said"
job=${said##* }
echo "submitted as job $job"
steps() { [ -e "$dir/job/metrics.jsonl" ] && [ "$(grep -c '"loss"' "$dir/job/metrics.jsonl")" -ge "$1" ]; }
state() { scontrol show job "$job" | grep -q "JobState=$1"; }
until_true steps 20
sbatch --partition=high --exclusive --output=/dev/null --wrap="sleep 1" > /dev/null || fail "the other job"
requeued() { scontrol show job "$job" | grep -q "Restarts=[1-9]"; }
until_true requeued
at=$(grep -c '"loss"' "$dir/job/metrics.jsonl")
[ "$at" -lt 600 ] || fail "the job had ended before it could be preempted"
echo "preempted and requeued after step $at"
# What is left of the first start must be gone before the second; Slurm itself waits for two minutes.
gone() { ! scontrol listpids "$job" > /dev/null 2>&1; }
until_true gone
sleep 5
due() { scontrol update "jobid=$job" starttime=now 2> /dev/null; state RUNNING || state COMPLETED; }
until_true due
until_true state COMPLETED
grep -q "resum" train-run-"$job".log || fail "it did not resume: $(cat train-run-"$job".log)"
cmp "$dir/alone/model.safetensors" "$dir/job/model.safetensors" || fail "the bits differ"
echo "finished with the bits of an undisturbed run"

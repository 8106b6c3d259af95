# shellcheck shell=bash
# What tests/device/run runs. Every section prints its table and returns non-zero where something is not as it should be.
# shellcheck disable=SC2154 # build, nccl_tests, slurm and out are set by tests/device/run

set_up() {
  gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader | wc -l)
  nvidia-smi --query-gpu=index,name,driver_version,pci.bus_id --format=csv | tee "$out/gpus.txt"
  [ "$gpus" -gt 0 ] || { echo "no GPU here" >&2; exit 1; }
  [ -n "$slurm" ] && unpack_packages
  [ -x "$build/runner/nccl-check" ] || { cmake --preset release && cmake --build --preset release; } || exit 1
  program=$(realpath "$build/runner/nccl-check")
  ldd "$program" | grep 'not found' && exit 1
  getent passwd nccl-check >/dev/null || useradd --system --no-create-home --shell /usr/sbin/nologin nccl-check
  work=$(mktemp -d)
  chmod 755 "$work"
  build_nccl_tests
  # The driver's first start is slow, and nobody's figure.
  "$program" --version
  all_reduce_perf -b 8 -e 8 -g "$gpus" -n 1 -w 0 >"$out/warm.txt" 2>&1 || { cat "$out/warm.txt"; exit 1; }
}

clean_up() {
  rm -rf "$work"
}

unpack_packages() {
  local package
  for package in "$slurm"/*.deb; do
    case ${package##*/} in
      # Of dbus and the like only the libraries: the rest would change the host.
      lib*) dpkg --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C / --wildcards './usr/lib/*' './lib/*' 2>/dev/null ;;
      *) dpkg --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C / ;;
    esac
  done
  ldconfig
}

build_nccl_tests() {
  local cuda=${CUDA_HOME:-/usr/local/cuda} capability
  perf=''
  [ -n "$nccl_tests" ] || { echo "no --nccl-tests: nothing to compare with"; return; }
  if [ ! -x "$nccl_tests/build/all_reduce_perf" ]; then
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    make -C "$nccl_tests" -j 16 CUDA_HOME="$cuda" ${NCCL_HOME:+NCCL_HOME="$NCCL_HOME"} \
      NVCC_GENCODE="-gencode=arch=compute_$capability,code=sm_$capability" >"$out/nccl-tests.log" 2>&1 ||
      { tail -n 5 "$out/nccl-tests.log"; exit 1; }
  fi
  perf=$(realpath "$nccl_tests/build")
}

all_reduce_perf() { "$perf/all_reduce_perf" "$@"; }

# ---- a gate as a prolog starts it

# gate NODE GPUS [VARIABLE=VALUE...]: prints the verdict's lines; the job's number is $job.
job=1000
gate() {
  local node=$1 list=$2
  shift 2
  job=$((job + 1))
  rm -f "/run/nccl-check/jobs/$job.json"
  cat >"$work/gate.toml" <<END
mode = "observe"
reuse = "0"
deadline = "30s"
END
  env "$@" SLURM_JOB_ID=$job SLURM_JOB_UID=0 SLURM_JOB_GID=0 SLURMD_NODENAME="$node" SLURM_JOB_NODELIST="$node" \
    SLURM_CLUSTER_NAME=device SLURM_JOB_PARTITION=gpu SLURM_JOB_GPUS="$list" \
    SPANK__SLURM_SPANK_OPTION_nccl_check_nccl_check='' "$program" gate --config "$work/gate.toml" \
    >"$out/gate.out" 2>&1
  sed -n "s/^nccl-check: job [0-9]*: nccl-check: //p" "$out/gate.out"
}

all_gpus() { seq -s , 0 $((gpus - 1)); }
now_ms() { local t=${EPOCHREALTIME/./}; echo $((t / 1000)); }
median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# expect WORDS TEXT...: whether the text says so.
expect() {
  local pattern=$1
  shift
  if grep -qE "$pattern" <<<"$*"; then return 0; fi
  echo "   NOT AS EXPECTED: no '$pattern' in: $*"
  return 1
}

# ---- sections

section_kernels() {
  "$build/tests/device/kernels/nccl_check_kernel_check" 2>&1 | tee "$out/kernels.txt" | tail -n 30
  return "${PIPESTATUS[0]}"
}

section_sanitizer() {
  compute-sanitizer --error-exitcode 9 "$build/tests/device/kernels/nccl_check_kernel_check" --small \
    >"$out/sanitizer.txt" 2>&1
  local status=$?
  tail -n 3 "$out/sanitizer.txt"
  return $status
}

section_speed() {
  local i start ours=() theirs=() line
  for i in 1 2 3 4 5; do
    start=$(now_ms)
    line=$(gate node1 "$(all_gpus)" | head -n 1)
    ours+=($(($(now_ms) - start)))
    start=$(now_ms)
    all_reduce_perf -b 8 -e 8 -g "$gpus" -n 1 -w 0 >"$out/empty.txt" 2>&1
    theirs+=($(($(now_ms) - start)))
    printf '%d: verdict %5d ms, all_reduce_perf -b 8 -e 8 -n 1 -w 0 %5d ms   %s\n' "$i" "${ours[-1]}" "${theirs[-1]}" "$line"
  done
  NCCL_CHECK_STAGES=1 "$build/tests/unit/engine_nccl/nccl_check_engine_probe" 2>&1 | tee "$out/stages.txt" | grep -E 'ms|whole|open'
  awk -v a="$(printf '%s\n' "${ours[@]}" | median)" -v b="$(printf '%s\n' "${theirs[@]}" | median)" 'BEGIN {
    printf "medians %d and %d ms, ratio %.2f (at most 0.75)\n", a, b, a / b; exit a / b > 0.75 }'
}

section_busbw() {
  local size i mine theirs bad=0 probe=$build/tests/unit/engine_nccl/nccl_check_engine_probe
  [ "$gpus" -ge 2 ] || { echo "(one GPU has no bus bandwidth)"; return; }
  printf '%-6s %12s %12s %8s\n' size ours nccl-tests ratio
  for size in 256M 1G 4G; do
    mine='' theirs=''
    for i in 1 2 3; do
      mine+=$("$probe" --bytes "$size" --iterations 20 --warmups 5 2>>"$out/busbw.err" | tee -a "$out/busbw.txt" | awk '/^all_reduce/ {print $2; exit}')$'\n'
      theirs+=$(all_reduce_perf -b "$size" -e "$size" -g "$gpus" -n 20 -w 5 2>&1 | tee -a "$out/busbw.txt" |
        awk '/^ +[0-9]+ +[0-9]+ +float/ {print $12; exit}')$'\n'
    done
    awk -v s="$size" -v a="$(sed '/^$/d' <<<"$mine" | median)" -v b="$(sed '/^$/d' <<<"$theirs" | median)" 'BEGIN {
      r = a / b; printf "%-6s %12.1f %12.1f %8.3f\n", s, a, b, r; exit r < 0.99 || r > 1.01 }' || bad=1
  done
  return $bad
}

section_figures() {
  "$build/tests/unit/engine_nccl/nccl_check_engine_probe" --repeat 3 2>&1 | tee "$out/figures.txt"
  return "${PIPESTATUS[0]}"
}

section_faults() {
  local text bad=0 load operation busy=$((gpus - 1)) operations=(device_memory to_device from_device)
  if [ "$gpus" -ge 2 ]; then
    operations+=(all_reduce peer_copy)
    text=$(gate node1 "$(all_gpus)" NCCL_MAX_NCHANNELS=1); echo "NCCL_MAX_NCHANNELS=1: $text"
    expect 'slow node1: all_reduce' "$text" || bad=1
    text=$(gate node1 "$(all_gpus)" NCCL_P2P_DISABLE=1); echo "NCCL_P2P_DISABLE=1: $text"
    expect 'slow node1: all_reduce' "$text" || bad=1
  else
    echo "(one GPU: nothing between GPUs can be tried)"
  fi
  CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=$busy "$build/tests/device/kernels/nccl_check_kernel_check" \
    --load 20 >"$out/load.txt" 2>&1 &
  load=$!
  sleep 3
  text=$(gate node1 "$(all_gpus)"); echo "a busy GPU $busy: $text"
  # Two processes on one GPU take turns, so its own memory is as fast as ever while it has one; what spans GPUs is not.
  if [ "$gpus" -ge 2 ]; then expect 'slow node1: all_reduce' "$text" || bad=1; fi
  expect "GPU $busy .*is on it, too" "$text" || bad=1
  kill $load 2>/dev/null
  wait $load 2>/dev/null
  for operation in "${operations[@]}"; do
    text=$(gate node1 "$(all_gpus)" NCCL_CHECK_TEST_FLIP="$operation"); echo "flipped bit in $operation: $text"
    expect 'corrupt node1' "$text" || bad=1
  done
  text=$(gate node1 0,7); echo "GPUs 0 and 7: $text"
  expect 'broken node1.*7' "$text" || bad=1
  text=$(gate node1 0); echo "one GPU: $text"
  expect 'pass node1' "$text" || bad=1
  return $bad
}

section_repeat() {
  local i passes=0 text
  for ((i = 0; i < 30; i++)); do
    text=$(gate node1 "$(all_gpus)")
    if grep -q '^pass' <<<"$text"; then passes=$((passes + 1)); else echo "$text"; fi
  done
  echo "$passes of 30 pass"
  [ "$passes" = 30 ]
}

section_slurm() {
  bash tests/device/slurm "$build" "$gpus" "$out"
}

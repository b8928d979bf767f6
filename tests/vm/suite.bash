# shellcheck shell=bash
# The suite: its programs, the jobs that the guest runs, and their results.

# How many seconds `load` and `cuts` use the device.
load_seconds=${RPCRDMA_LOAD_SECONDS:-30}

# Whether the long suite runs: every job in every set-up that has what the job needs, and the long
# form of the jobs that have one.
long=${RPCRDMA_VM_LONG:-0}

# The names of scripts in guest/jobs, their time limits in seconds, and where the short suite runs
# them. Each device has the jobs that depend on it most. What depends more on the kernel's NFS than
# on the device runs where the set-ups end at about the same time.
all="rxe-6.1 rxe-6.12 siw-6.1"
jobs=(
    "conformance 180 $all"
    "transport 120 $all"
    "groups 120 $all"
    "demo 60 rxe-6.1"
    "windows 60 rxe-6.12"
    "cuts $((100 + load_seconds)) $all"
    "bench 180 rxe-6.1"
    "load $((180 + 2 * load_seconds)) rxe-6.12"
    "nfs 60 rxe-6.12"
    "nfs_client 120 rxe-6.12"
    "nfs4_client 120 $all"
    "ganesha 300"
    "mount 480 rxe-6.1"
    "mount_dir 480 siw-6.1"
    "mount_rpcbind 120 rxe-6.1"
    "mount_systemd 150 rxe-6.1"
    "mount_workloads $((long ? 7200 : 600)) rxe-6.1"
    "mount_kill $((long ? 3600 : 300)) rxe-6.12"
    "mount_disk 180 siw-6.1"
    "mount_cuts $((180 + 7 * load_seconds)) $all"
    "nfs_compare 1800"
    "linux 120 rxe-6.12"
    "iwarp 240 siw-6.1"
    "iwarp_peer_to_peer 180 siw-6.1"
    "iwarp_mount 300 siw-6.1"
)

# Whether the job $1, whose short form runs in the other arguments, runs in the set-up $setup.
is_chosen() {
    local job=$1
    shift
    case $job in
    # These jobs need Linux's iWARP as the peer.
    iwarp*) [ "$device" = siw0 ] || return ;;
    # Ganesha asks for more scatter/gather entries than siw has.
    ganesha) [ "$device" != siw0 ] || return ;;
    esac
    if [ -n "${RPCRDMA_VM_ONLY-}" ]; then
        [[ " $RPCRDMA_VM_ONLY " == *" $job "* ]]
    else
        [ "$long" = 1 ] || [[ " $* " == *" $setup "* ]]
    fi
}

# The test programs that the jobs run, in addition to the command `rpcrdma`.
test_programs=(conformance transport groups operations load linux linux_nfsd linux_nfsd4 proxy rping_peer)
[[ $long != 1 && " ${RPCRDMA_VM_ONLY-} " != *" ganesha "* ]] || test_programs+=(ganesha)

# Builds the test programs and the command into the folder $1, under their names.
build() {
    local file name
    need "${for_ibverbs[@]}"
    mkdir -p "$1"
    for name in fsx pjdfstest; do
        ln -s "$("$here/image" "$name")/$name" "$1/$name"
    done
    for name in files cases; do
        rustc -O --edition 2024 -o "$1/$name" "$here/guest/$name.rs"
    done
    # A file tree to unpack.
    tar -cf "$1/sources.tar" -C "$here/../.." nfs
    cp "$here/../../rpcrdma-verbs/cli/deploy"/*.service "$1"
    built --profile "$profile" "${optimised[@]}" --bin=rpcrdma "${test_programs[@]/#/--test=}" >"$work/built"
    while read -r file; do
        name=$(basename "$file")
        ln -sf "$file" "$1/${name%-????????????????}"
    done <"$work/built"
    for name in "${test_programs[@]}" rpcrdma; do
        [ -e "$1/$name" ] || { echo "tests/vm: cargo has not built $name" >&2 && return 1; }
    done
}

# The profile of the programs. What is measured is best built with `release`.
profile=${RPCRDMA_VM_PROFILE:-ci}

# Builds, and prints the paths of the programs.
built() {
    (cd "$here/../.." && cargo build -q "$@" --message-format=json-render-diagnostics) \
        | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# Runs jobs, each a name and a time limit, in a machine with the folder $1.
run_jobs() {
    local folder=$1 job limit=60
    shift
    for job in "$@"; do
        limit=$((limit + ${job##* } + 30))
    done
    settings "$folder/guest" run_job "$(printf '%s\n' "$@")"
    add_files "$folder/guest" "$work"/tests/*
    boot "$folder" "$limit" || true
    ended "$folder" || true
}

# Runs the suite in one set-up; adds to passed and failed. If Linux panics, which its drivers in
# software sometimes do, the jobs that have no result run once more.
suite() {
    local folder=$work/$1 job name limit where sums start=$SECONDS chosen=() others again
    prepare "$1"
    # The short suite has fewer processors of the host than of the machines, whose kernels spin for
    # locks: one machine has one, which is another order of events, too.
    [ "$long" = 1 ] || [ -n "${RPCRDMA_VM_ONLY-}" ] || [ "$setup" != rxe-6.12 ] || processors=1
    for job in "${jobs[@]}"; do
        read -r name limit where <<<"$job"
        # shellcheck disable=SC2086 # several set-ups
        ! is_chosen "$name" $where || chosen+=("$name $limit")
    done
    if [ ${#chosen[@]} = 0 ]; then
        echo "tests/vm: $1 has none of these jobs: ${RPCRDMA_VM_ONLY-}"
        failed=$((failed + 1))
        return
    fi
    if [[ " ${chosen[*]}" =~ \ (mount_workloads|nfs_compare)\  || ("$long" = 1 && " ${chosen[*]}" == *" mount_kill "*) ]]; then
        more_archives+=("$("$here/image" workloads)/archive.cpio")
    fi
    if [[ " ${chosen[*]}" == *" ganesha "* ]]; then
        more_archives+=("$("$here/image" ganesha)/archive.cpio")
    fi
    echo "==== $setup: Linux $(cat "$kernel/version")"
    mapfile -t others < <(printf '%s\n' "${chosen[@]}" | grep -v '^nfs_compare ')
    : >"$folder/reports"
    if [ ${#others[@]} != 0 ]; then
        run_jobs "$folder" "${others[@]}"
        cat "$folder/report" >>"$folder/reports"
    fi
    [[ " ${chosen[*]}" != *" nfs_compare "* ]] || compare "$folder"
    mapfile -t again < <(rest "$folder/reports")
    if [ ${#again[@]} != 0 ] && grep -qs 'Kernel panic' "$folder/console"; then
        echo "tests/vm: $setup: Linux panicked; in another machine run: ${again[*]%% *}" >&2
        run_jobs "$folder/again" "${again[@]}"
        cat "$folder/again/report" >>"$folder/reports"
    fi
    read -ra sums < <(sum "$folder/reports")
    echo "==== $setup: ${sums[0]} passed, ${sums[1]} failed ($((SECONDS - start)) s)"
    passed=$((passed + sums[0]))
    failed=$((failed + sums[1]))
}

# Runs the job `nfs_compare` in a machine of its own. The threads of a client spin for the lock of a
# directory: of two processors, only one would be left for all else.
compare() {
    local job processors=4
    job=$(printf '%s\n' "${chosen[@]}" | grep '^nfs_compare ')
    run_jobs "$1/compare" "$job"
    cat "$1/compare/report" >>"$1/reports"
}

# Prints the chosen jobs that have no line in a report.
rest() {
    printf '%s\n' "${chosen[@]}" | awk '
        part == "report" { if ($1 == "job") done[$2] = 1; next }
        !($1 in done)' part=report "$1" part=chosen -
}

# Sums the results of a report, which may be empty. A job without a line in it did not end, and has
# failed.
sum() {
    printf '%s\n' "${chosen[@]}" | awk '
        part == "report" { if ($1 == "job") { done[$2] = 1; passed += $3; failed += $4 }; next }
        !($1 in done) { failed++ }
        END { print passed + 0, failed + 0 }' part=report "$1" part=chosen -
}

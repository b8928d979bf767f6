# shellcheck shell=bash
# Jobs: each runs with a time limit in a separate control group, so that all its processes can be
# killed.

# The requested jobs: each line has a name and a time limit in seconds. None runs after a job whose
# processes the kernel does not let end: it would only wait for the same.
run_jobs() {
    local name limit
    resources_at_start=$(resources)
    while read -r name limit; do
        if [ -e /tmp/stuck ]; then
            echo "tests/vm: $name does not run: the kernel is stuck" >&3
            continue
        fi
        "$RPCRDMA_RUN" "$name" "$limit"
    done <<<"$RPCRDMA_JOBS"
}

# $1: a name, $2: seconds, $3: a file that also gets the output. Sets $status: 124 after a timeout.
run() {
    local name=$1 limit=$2 log=$3 group=/sys/fs/cgroup/$1 printer job watchdog
    mkdir "$group"
    mkfifo "/tmp/$name.pipe"
    tee "$log" <"/tmp/$name.pipe" >&3 4>&- &
    printer=$!
    exec 5>"/tmp/$name.pipe"
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        cd /tests && exec "/tests/guest/jobs/$name"
    ) >&5 2>&1 3>&- 4>&- 5>&- </dev/null &
    job=$!
    watch "$name" "$limit" "$group" 2>/dev/null 3>&- 4>&- </dev/null &
    watchdog=$!
    status=0
    wait "$job" || status=$?
    kill "$watchdog" 2>/dev/null || true
    wait "$watchdog" || true
    [ ! -e "/tmp/late.$name" ] || status=124
    end_group "$group" >&5
    exec 5>&-
    wait "$printer"
}

# Its sleep must end with it, as both hold the output open.
watch() {
    sleep "$2" &
    trap 'kill $!; exit' TERM
    wait $!
    touch "/tmp/late.$1"
    echo "tests/vm: $1 did not end in $2 s; its processes:" >&5
    processes "$3" >&5
    blocked >&5
    echo 1 >"$3/cgroup.kill"
}

# Prints where each thread of a group waits in the kernel.
processes() {
    local process thread
    while read -r process; do
        echo "  $process: $(tr '\0' ' ' <"/proc/$process/cmdline")"
        for thread in "/proc/$process/task"/*; do
            echo "    $(cat "$thread/comm"): $(head -4 "$thread/stack" | awk '{ printf "%s ", $2 }')"
        done
    done <"$1/cgroup.procs"
}

# Prints the threads that wait in the kernel and cannot be killed, its own ones among them.
blocked() {
    local start
    start=$(awk '{ print $1 }' /proc/uptime)
    echo w >/proc/sysrq-trigger
    dmesg | awk -v start="$start" -F '[][]' '$2 + 0 >= start - 0.1 { print "  " $0 }'
}

end_group() {
    local group=$1
    echo 1 >"$group/cgroup.kill"
    if until_true 20 grep -q 'populated 0' "$group/cgroup.events"; then
        # systemd makes groups in its own.
        find "$group" -depth -type d -exec rmdir {} \;
    else
        echo "tests/vm: its processes cannot be killed:"
        processes "$group"
        blocked
        touch /tmp/stuck
        status=125
    fi
}

# $1: seconds, then a command.
until_true() {
    local tries=$(($1 * 10))
    shift
    until "$@"; do
        [ $((tries--)) != 0 ] || return 1
        sleep 0.1
    done
}

# Runs the requested command.
run_command() {
    run "$@" /dev/null
    echo "exit $status" >&4
}

# Runs a job of the suite. Objects that remain in the kernel after all its processes have ended are
# a failure of the kernel or of the program.
run_job() {
    local name=$1 log=/tmp/$1.log start=$SECONDS passed failed
    echo "== $name" >&3
    dmesg -c >/dev/null
    run "$@" "$log"
    kernel_words >&3
    unmount_left >&3
    until_true 10 resources_are_back || {
        echo "tests/vm: left in the kernel: $(resources), at the start: $resources_at_start" >&3
        status=126
    }
    read -r passed failed < <(counts "$log" "$status")
    echo "-- $name: $passed passed, $failed failed (status $status, $((SECONDS - start)) s)" >&3
    echo "job $name $passed $failed" >&4
    rm -f "$log"
}

# Unmounts what a job has left mounted, which is a failure: the next job would use it.
unmount_left() {
    local mount
    # It would wait for the stuck kernel.
    [ ! -e /tmp/stuck ] || return 0
    while read -r mount; do
        echo "tests/vm: left mounted: $mount"
        timeout -s KILL 10 umount -f -l "$mount" || true
        status=126
    done < <(awk '$3 ~ /^nfs4?$/ { print $2 }' /proc/mounts | tac)
}

# What is open in the kernel, without the number of the device: a job may make the device again.
resources() { rdma resource | sed 's/^[0-9]*: //'; }
resources_are_back() { [ "$(resources)" = "$resources_at_start" ]; }

# Prints warnings and worse. The warning about a device without a speed is expected: it applies to
# all these devices.
kernel_words() { dmesg -r | sed -nE '/speed is unknown/d; s/^<[0-4]>/kernel: /p'; }

# Prints the passed and failed counts: the sum of libtest's results, and the last line of a program
# with its own count. A job that fails without counts is one failure, and so is a libtest program
# that runs no test; a job that succeeds without counts has passed once.
counts() {
    awk -v status="$2" '
        /^test result: / { passed += $4; failed += $6; tests = 1 }
        { last = $0 }
        END {
            if (last ~ /^[0-9]+ passed, [0-9]+ failed$/) { split(last, n, /[ ,]+/); passed += n[1]; failed += n[3] }
            if (status != 0 && failed == 0) failed = 1
            if (passed + failed == 0) { if (tests) failed = 1; else passed = 1 }
            print passed + 0, failed + 0
        }' "$1"
}

# shellcheck shell=bash
# Shared by the jobs in which the kernel's client mounts `rpcrdma nfs serve DIR`: checks, the
# server, and mounts.
dir=/tmp/export
log=/tmp/serve.log
passed=0 failed=0

# $1: the name of the check, then a function. The function fails if any of its commands fails.
check() {
    local start=${EPOCHREALTIME/./}
    (set -ex; "${@:2}") >/tmp/check.log 2>&1 &
    if wait $!; then
        passed=$((passed + 1))
        echo "passed: $1 ($(((${EPOCHREALTIME/./} - start) / 1000)) ms)"
    else
        failed=$((failed + 1))
        echo "FAILED: $1"
        tail -n 40 /tmp/check.log
    fi
}

# Succeeds if a command fails.
refused() {
    if "$@"; then return 1; fi
}

# Starts the server, with further options.
serve() {
    : >"$log"
    ./rpcrdma nfs serve "$dir" --squash none --key /run/nfs-handle-key "$@" >"$log" 2>&1 &
    echo $! >/run/server.pid
    until grep -q ^listening "$log"; do
        kill -0 "$(cat /run/server.pid)" || return
        sleep 0.1
    done
}

# Ends the server by signal $1. It may not be a child of this shell.
end_server() {
    local server
    server=$(cat /run/server.pid)
    kill "-$1" "$server"
    while grep -qs '^State:.[^Z]' "/proc/$server/status"; do sleep 0.05; done
}

# $1: tcp or rdma, $2: the port, $3: where, $4: the port of MOUNT, $5: what; mount_options has more
# options, each after a comma.
mounted() {
    mkdir -p "$3"
    mount.nfs "$RPCRDMA_ADDRESS:${5:-/}" "$3" -o "vers=3,proto=$1,port=$2,mountproto=tcp,mountport=${4:-2049},nolock,nosharecache${mount_options-}"
}

# Mounts a file system other than the initramfs for the server, $1: `tmpfs` (the default), or `disk`
# with ext4, which needs disk.bash; and keeps the client's cache small.
prepare() {
    mkdir -p $dir
    echo $((32 << 20)) >/proc/sys/vm/dirty_bytes
    case ${1:-tmpfs} in
    tmpfs) mount -t tmpfs export $dir ;;
    disk) make_disk $dir ;;
    esac
}

summary() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}

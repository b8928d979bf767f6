# shellcheck shell=bash
# Two machines on one network, with a server in one and a client in the other. One is killed, like
# by a loss of power, and the other continues; and the packets between them are captured.

# $1: its name, $2: its address, then its command. The output goes to the file `said` in its folder,
# and the packets of its network device to the file $capture, if that is set.
machine() {
    local folder=$work/pair/$1 address=$2 other=client captures=()
    [ "$1" = client ] && other=server
    shift 2
    rm -rf "$folder/guest"
    mkdir -p "$folder"
    settings "$folder/guest" run_command "command $pair_limit" eth0 "$address"
    add_files "$folder/guest" "$work/tests/rpcrdma"
    command_job "$folder/guest" "$@"
    [ -z "${capture-}" ] || captures=(-object "filter-dump,id=dump,netdev=net,file=$capture")
    # The network uses datagrams, so that either machine may stop and start.
    boot "$folder" $((pair_limit + 60)) -device "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:00:0${address##*.}" \
        -netdev "dgram,id=net,local.type=unix,local.path=$folder/net,remote.type=unix,remote.path=$work/pair/$other/net" \
        "${captures[@]}" \
        >"$folder/said"
}

# Waits until the output of machine $1 matches the pattern $2 at least $3 times, or $4 seconds have
# passed.
says() {
    local tries
    for ((tries = 0; tries < $4 * 5; tries++)); do
        if [ -f "$work/pair/$1/said" ] && [ "$(grep -cE "$2" "$work/pair/$1/said")" -ge "$3" ]; then
            return
        fi
        sleep 0.2
    done
    echo "tests/vm: the $1 did not say \`$2\` $3 times; what it said, and its console:" >&2
    tail -n 30 "$work/pair/$1/said" >&2
    tail -n 50 "$work/pair/$1/console" >&2
    return 1
}

check() {
    if "${@:2}"; then
        echo "passed: $1"
        sums[0]=$((sums[0] + 1))
    else
        echo "FAILED: $1"
        sums[1]=$((sums[1] + 1))
    fi
}

pair() {
    local start=$SECONDS sums=(0 0) pair_limit=300
    prepare rxe-6.1
    need tshark
    echo "==== pair: Linux $(cat "$kernel/version")"
    mkdir -p "$work/pair"
    { packets_are_captured && server_is_killed && client_is_killed; } || check "the machines behave as expected" false
    kill_machines "$work/pair"
    echo "==== pair: ${sums[0]} passed, ${sums[1]} failed ($((SECONDS - start)) s)"
    passed=$((passed + sums[0]))
    failed=$((failed + sums[1]))
}

# Sets $started, for `wait`.
start() {
    rm -f "$work/pair/$1/said"
    machine "$@" &
    started=$!
}

serve() { start server 10.9.8.1 ./rpcrdma serve --device rxe0 --bind 10.9.8.1:20049; }
# $1: the number of calls, $2: the interval. Each call has a timeout of two minutes, which is longer
# than the restart of a machine.
ping() {
    start client 10.9.8.2 ./rpcrdma ping --device rxe0 --connect 10.9.8.1:20049 --count "$1" --interval "$2" --timeout 2m
}

# Counts the answers to a client: each is a line.
answer='bytes from'

# Counts the packets of soft-RoCE with a DSCP in a capture.
packets_with_dscp() { tshark -r "$1" -Y "udp.dstport == 4791 && ip.dsfield.dscp == $2" 2>/dev/null | wc -l; }

# By the emulator, at the client's end. Small calls, and some that need Read and Write chunks or
# Sends in several packets. RPCRDMA_PAIR_CAPTURE names a file that gets the capture.
packets_are_captured() {
    local capture='' to="--device rxe0 --connect 10.9.8.1" each commands=()
    start server 10.9.8.1 bash -c './rpcrdma nfs serve --memory --device rxe0 --rdma=10.9.8.1:20050 & exec ./rpcrdma serve --device rxe0 --bind 10.9.8.1:20049'
    says server '^(serving at|listening)' 2 120 || return
    for each in "--operation write --size 4200" "--operation read --size 4200" "--operation echo --size 1500" \
        "--operation write --size 4200 --protocol 1" "--operation echo --size 700 --protocol 1"; do
        commands+=("./rpcrdma bench $to:20049 --duration 0 --depth 1 $each")
    done
    commands+=(
        "./rpcrdma ping $to:20049 --count 5 --interval 1ms --traffic-class 104"
        "head -c 5000 /dev/urandom >random"
        "./rpcrdma nfs cp --device rxe0 --rdma=20050 random 10.9.8.1:/copy"
        "./rpcrdma nfs cat --device rxe0 --rdma=20050 10.9.8.1:/copy | cmp - random"
    )
    capture=$work/pair/packets.pcap
    start client 10.9.8.2 bash -exc "$(printf '%s\n' "${commands[@]}" "echo done")"
    wait "$started" || true
    check "the client's commands are executed" grep -qx done "$work/pair/client/said" || return
    kill_machine "$work/pair/server"
    check "rpcrdma decode and Wireshark show the same of their packets" \
        env RPCRDMA_CAPTURE="$capture" cargo test -q --manifest-path "$here/../../Cargo.toml" \
        --workspace --test wireshark -- --exact packets_of_soft_roce
    # DSCP is the class without its two low bits. The calls of ping have it, and their replies.
    check "the traffic class is in the packets of its connection" [ "$(packets_with_dscp "$capture" 26)" -ge 10 ]
    [ -z "${RPCRDMA_PAIR_CAPTURE-}" ] || cp "$capture" "$RPCRDMA_PAIR_CAPTURE"
}

server_is_killed() {
    local client
    serve
    says server '^serving at' 1 120 || return
    # The calls are sequential: one is in flight when the server is killed, which may have received
    # it already.
    ping 2000 0
    client=$started
    says client "$answer" 30 120 || return
    kill_machine "$work/pair/server"
    says client '^no connection' 1 120 || return
    serve
    says server '^serving at' 1 120 || return
    wait "$client" || true
    # All other lines: the events of the connection, and the errors of calls.
    grep -v "$answer" "$work/pair/client/said"
    check "every call is answered after the restart of the server" all_answered 2000
    check "the client reconnected" [ "$(last_count connections)" -ge 2 ]
}

# The server of the first part continues.
client_is_killed() {
    ping 1000 100ms
    says client "$answer" 30 120 || return
    kill_machine "$work/pair/client"
    ping 100 100ms
    wait "$started" || true
    grep -v "$answer" "$work/pair/client/said"
    check "the server serves a client after another was killed" all_answered 100
    says server '^0 connections' 3 120 || return
    tail -n 3 "$work/pair/server/said"
    check "the server has dropped the killed client" true
}

all_answered() { grep -q "^$1 calls: $1 answered, 0 failed" "$work/pair/client/said"; }

# Prints a number in the last line of the client's output.
last_count() { tail -n 1 "$work/pair/client/said" | sed -n "s/.*[^0-9]\([0-9]*\) $1.*/\1/p"; }

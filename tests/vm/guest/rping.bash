# shellcheck shell=bash
# Steps of jobs that have siw at the other end, of which each failure counts.

failed=0
step() {
    echo "== $*"
    "$@" || failed=$((failed + 1))
}

# The RDMA connection manager draws ports for siw without a look at those of TCP: few are to be in use.
few_ports() {
    echo 0 >/proc/sys/net/ipv4/tcp_max_tw_buckets
    echo 21000 65000 >/proc/sys/net/ipv4/ip_local_port_range
}

# rdma-core's rping, which checks what comes back.
with_rping() {
    local rping
    if [ "$1" = server ]; then
        env RPCRDMA_RPING=server RPCRDMA_DEVICE=iwarp ./rping_peer with_the_program &
        sleep 1
        rping -c -a "$RPCRDMA_ADDRESS" -C 20 -S 30000 -V -v | tail -c 200 && wait $!
        return
    fi
    rping -s -a "$RPCRDMA_ADDRESS" -C 20 -S 40000 -V &
    rping=$!
    sleep 1
    env RPCRDMA_RPING=client RPCRDMA_DEVICE=iwarp ./rping_peer with_the_program
    local status=$?
    wait $rping
    return $status
}

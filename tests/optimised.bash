# shellcheck shell=bash
# The packages and features of optimised test programs: for the simulator, the soak test and the
# virtual machines. One selection for all, so that cargo builds each crate once.
optimised=(
    -p rpcrdma-proto -p rpcrdma-verbs -p rpcrdma-transport-tests -p rpcrdma-nfs -p rpcrdma-cli
    --features "rpcrdma-cli/ibverbs,rpcrdma-nfs/ibverbs,rpcrdma-nfs/nfs4,rpcrdma-verbs/tokio,rpcrdma-transport-tests/ibverbs"
)
# What the crate of rdma-core needs when it is built.
for_ibverbs=(cmake make g++ python3 libclang-dev pkg-config libibverbs-dev librdmacm-dev libnl-3-dev libnl-route-3-dev)

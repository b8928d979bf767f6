# shellcheck shell=bash
# What users do with files, each a function for `check`, in the folder $at of a mount. $other is the
# same folder by another mount, which shares no cache with the first; $long is 1 for the long forms.
long=${RPCRDMA_LONG:-0}

# $1: how much in the long form, $2: in the short one.
amount() { [ "$long" = 1 ] && echo "$1" || echo "$2"; }

# fio writes, each block with a checksum, and reads all of it again: by the other mount, which knows
# no file of this name.
verified() {
    local name=${FUNCNAME[1]}
    local all=(--name="$name" --size="$(amount 32m 4m)" --verify=crc32c --verify_fatal=1 --fallocate=none)
    fio --directory="$at" "${all[@]}" "$@" --do_verify=0
    fio --directory="$other" "${all[@]}" "$@" --verify_only
    rm -f "$at/$name".*
}

direct_blocks() { verified --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=16; }
direct_megabytes() { verified --rw=write --bs=1m --direct=1 --ioengine=libaio --iodepth=4; }
# What is left at the end is less than a block: by --overwrite the file has it, too.
buffered_odd_sizes() { verified --overwrite=1 --rw=write --bsrange=512-128k --blocksize_unaligned=1 --ioengine=psync --end_fsync=1; }
mapped_blocks() { verified --size="$(amount 16m 1m)" --rw=randwrite --bs=4k --ioengine=mmap --end_fsync=1; }
four_writers() { verified --size="$(amount 16m 1m)" --rw=write --bs=64k --numjobs=4 --ioengine=psync --end_fsync=1; }

# Each block is read and checked while others are written.
mixed() {
    fio --directory="$at" --name=mixed --size="$(amount 32m 4m)" --rw=randrw --bs=8k --ioengine=libaio --iodepth=8 --direct=1 \
        --verify=crc32c --verify_fatal=1 --verify_backlog=64 --fallocate=none
    rm -f "$at"/mixed.*
}

exercised() {
    printf '%s\n' '[weights]' close_open=1 invalidate=1 mapread=10 mapwrite=10 read=10 write=10 truncate=5 fsync=1 fdatasync=1 \
        punch_hole=0 >/tmp/fsx.toml
    ./fsx -N "$(amount 20000 400)" -f /tmp/fsx.toml -P /tmp "$at/exercised"
    rm -f "$at/exercised"
}

# tcc compiles itself, as it does on a file system of this machine; make finds nothing more to do.
compiled() {
    local place files
    mapfile -t files < <(tar -tf /usr/share/tcc.tar | grep -vE "/\$|$(amount '^$' '/(tests|win32)/')")
    for place in /tmp/compiled "$at/compiled"; do
        mkdir -p "$place"
        (cd "$place" && tar -xf /usr/share/tcc.tar "${files[@]}" && cd tcc && ./configure --cc=tcc && make tcc libtcc1.a && make -q tcc libtcc1.a)
    done
    cmp /tmp/compiled/tcc/tcc "$other/compiled/tcc/tcc"
    cd "$at/compiled/tcc"
    [ "$(./tcc -B. -I. -Iinclude -run examples/ex1.c)" = "Hello World" ]
    cd /
    # It has the path of its source.
    rm "$at/compiled/tcc/bcheck.o" /tmp/compiled/tcc/bcheck.o
    diff -r /tmp/compiled "$other/compiled"
    rm -r "$at/compiled" /tmp/compiled
}

git_of() { git -c user.name=name -c user.email=name@example.com -c init.defaultBranch=main -c gc.auto=0 -C "$@"; }

# A repository is cloned to the mount, changed, packed, and cloned from there.
cloned() {
    export GIT_TEMPLATE_DIR=
    mkdir /tmp/repository
    tar -xf /tests/sources.tar -C /tmp/repository "$(amount nfs nfs/src/service)"
    git_of /tmp/repository init -q
    git_of /tmp/repository add .
    git_of /tmp/repository commit -q -m first
    git clone -q file:///tmp/repository "$at/clone"
    git -C "$other/clone" fsck --full --strict
    diff -r /tmp/repository/nfs "$other/clone/nfs"
    git_of "$at/clone" checkout -q -b branch
    git_of "$at/clone" mv nfs/src nfs/sources
    git_of "$at/clone" commit -q -a -m second
    git_of "$at/clone" checkout -q main
    git_of "$at/clone" merge -q branch
    git_of "$at/clone" gc -q
    git -C "$at/clone" fsck --full --strict
    [ -z "$(git -C "$at/clone" status --porcelain)" ]
    git clone -q "file://$other/clone" /tmp/second
    diff -r /tmp/repository/nfs/src /tmp/second/nfs/sources
    git -C /tmp/second fsck --full --strict
    rm -rf "$at/clone" /tmp/repository /tmp/second
    [ ! -e "$at/clone" ]
}

# One directory with so many files.
removed() {
    local count
    count=$(amount 10000 300)
    mkdir "$at/many"
    ./files fill "$at/many" "$count" 8
    [ "$(find "$other/many" -type f | wc -l)" = "$count" ]
    rm -r "$at/many"
    [ ! -e "$at/many" ]
}

# A name is replaced or removed while this client, or another one, has its object open.
replaced() {
    local dir=$at/replaced
    mkdir "$dir"
    echo old >"$dir/one"
    exec 5<>"$dir/one"
    echo new >"$dir/two"
    mv "$dir/two" "$dir/one"
    [ "$(cat <&5)" = old ]
    [ "$(cat "$dir/one")" = new ]
    # The client has kept the old object by a name of its own.
    [ "$(find "$dir" -name '.nfs*' | wc -l)" = 1 ]
    echo more >&5
    [ "$(cat /dev/fd/5)" = "$(printf 'old\nmore')" ]
    exec 5>&-
    # It removes that name after the last close.
    until [ "$(ls -A "$dir")" = one ]; do sleep 0.1; done
    # Another client knows nothing of it.
    exec 5<"$dir/one"
    echo newer >"$other/replaced/two"
    mv "$other/replaced/two" "$other/replaced/one"
    [ "$(cat "$dir/one")" = newer ]
    exec 5<&-
    rm -r "$dir"
}

# What one mount has closed, the other opens.
close_to_open() {
    local i from to size
    mkdir "$at/shared"
    for ((i = 0; i < $(amount 200 10); i++)); do
        [ $((i % 2)) = 0 ] && from=$at/shared to=$other/shared || from=$other/shared to=$at/shared
        size=$((i * 7919 % 300000))
        head -c $size /tmp/random >"$from/file"
        cmp <(head -c $size /tmp/random) "$to/file"
        echo "line $i" >>"$to/file"
        [ "$(tail -n 1 "$from/file" | tail -c $((${#i} + 6)))" = "line $i" ]
        truncate -s 10 "$from/file"
        [ "$(stat -c %s "$to/file")" = 10 ] || [ "$(wc -c <"$to/file")" = 10 ]
    done
    chmod 600 "$at/shared/file"
    cat "$other/shared/file" >/dev/null
    [ "$(stat -c %a "$other/shared/file")" = 600 ]
    rm -r "$at/shared"
}

# Beyond 4 GiB, with holes, and directly.
sparse() {
    truncate -s 6G "$at/sparse"
    dd if=/tmp/random of="$at/sparse" bs=64k count=8 seek=$((65536 - 4)) conv=notrunc oflag=direct
    [ "$(du -m "$other/sparse" | cut -f 1)" -lt 10 ]
    cmp <(dd if="$other/sparse" bs=64k count=8 skip=$((65536 - 4)) iflag=direct) <(head -c $((8 << 16)) /tmp/random)
    dd if="$other/sparse" bs=64k count=4 skip=$((65536 - 8)) | cmp -n $((4 << 16)) - /dev/zero
    rm "$at/sparse"
}

# tcc compiles on the mount what it runs there.
mapped() {
    cp guest/mapped.c "$at"
    tcc -o "$at/mapped" "$at/mapped.c"
    mkdir "$at/in-memory"
    "$at/mapped" "$at/in-memory"
    rmdir "$at/in-memory"
    rm "$at/mapped" "$at/mapped.c"
}

# Those in the configuration fail with Linux's server, too. The short form has the most intricate
# procedures, and leaves out the rest.
posix() {
    local patterns=()
    [ "$long" = 1 ] || patterns=(rename:: unlink::)
    mkdir -p /tmp/second-file-system "$at/posix"
    chmod 755 "$at/posix"
    ./pjdfstest -c guest/pjdfstest.toml -p "$at/posix" -s /tmp/second-file-system "${patterns[@]}" >/tmp/posix.log || {
        grep -A 4 -E 'FAILED|UNEXPECTEDLY' /tmp/posix.log
        return 1
    }
    # It would succeed without any.
    tail -n 1 /tmp/posix.log | tee /tmp/posix.summary
    grep -qE '[1-9][0-9]+ passed' /tmp/posix.summary
    rm -rf "$at/posix"
}

# $1: what is tried, for the names of checks; a failure of the workload $excused does not count.
all_workloads() {
    local name before
    mkdir -p "$at"
    for name in $(./cases list); do
        check "$1: case $name" ./cases "$name" "$at"
    done
    for name in direct_blocks direct_megabytes buffered_odd_sizes mapped_blocks four_writers mixed exercised compiled cloned removed \
        replaced close_to_open sparse mapped; do
        before=$failed
        check "$1: $name" $name
        if [ "$name" = "${excused-}" ] && [ "$failed" -gt "$before" ]; then
            echo "excused: $1: $name"
            failed=$before
        fi
        # What a check that failed has left.
        rm -rf "${at:?}"/* /tmp/compiled /tmp/repository /tmp/second
    done
}

# shellcheck shell=bash
# One machine: its boot files and its output.
#
# The console is a serial port, for the kernel and for errors of init. Output and reports use two
# separate ports, so that no kernel message is mixed into them.

# Gets the cached files of a set-up: sets setup, device, kernel, programs and more_archives,
# and the number of processors.
prepare() {
    setup=$1
    processors=2
    device=${setup%%-*}0
    need qemu-system-x86 cpio
    kernel=$("$here/image" "kernel-${setup##*-}")
    programs=$("$here/image" programs)
    more_archives=()
    if [ "$device" = siw0 ]; then
        more_archives+=("$("$here/image" "$setup")/archive.cpio")
    fi
}

# $1: a folder of the guest's own files, $2: `run_command` or `run_job`, $3: the jobs, each a line
# with its limit in seconds; $4 and $5: a network device and its address, if they differ from the
# default ones, which are connected to nothing.
settings() {
    mkdir -p "$1/tests"
    cp -r "$here/guest" "$1/tests/guest"
    ln -s tests/guest/init "$1/init"
    {
        printf 'export RPCRDMA_DEVICE=%q RPCRDMA_HOST=%q RPCRDMA_NETDEV=%q RPCRDMA_ADDRESS=%q\n' \
            "$device" "$setup" "${4:-dummy0}" "${5:-10.9.9.1}"
        printf 'export RPCRDMA_LOAD_SECONDS=%q RPCRDMA_LONG=%q\n' "$load_seconds" "$long"
        # What one job of the long suite tries, if not all.
        printf 'export RPCRDMA_TRIED=%q\n' "${RPCRDMA_TRIED-}"
        printf 'RPCRDMA_RUN=%q RPCRDMA_JOBS=%q\n' "$2" "$3"
    } >"$1/tests/machine"
}

# Makes a command the guest's only job: $1: its folder, then the command.
command_job() {
    local job=$1/tests/guest/jobs/command
    {
        echo '#!/bin/bash'
        printf 'exec'
        printf ' %q' "${@:2}"
        echo
    } >"$job"
    chmod +x "$job"
}

# Adds files to a folder of the guest, with the needed libraries that the guest lacks.
add_files() {
    local into=$1 file library
    shift
    mkdir -p "$into/tests"
    for file in "$@"; do
        cp -L "$file" "$into/tests/"
        # A script has no libraries.
        while read -r library; do
            grep -qxF "$(in_usr "$library")" "$programs/files" || install -D "$library" "$into$(in_usr "$library")"
        done < <(ldd "$file" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }')
    done
}

# Prints the path of a library in the guest, whose /lib is a link: an archive with a folder of that
# name would replace it.
in_usr() {
    case $1 in
    /lib*) echo "/usr$1" ;;
    *) echo "$1" ;;
    esac
}

# The kernels run without hardening, auditing and the watchdog, which take 8 % of the emulated
# processors.
lean="mitigations=off init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off lsm= audit=0 nowatchdog"

# $1: a machine's folder, with its own files in `guest`. Runs the machine until it stops or $2
# seconds have passed; further arguments are for qemu. The output goes to standard output; `console`
# and `report` in the folder contain the rest.
#
# The machine is emulated, as hardware virtualisation may be absent, or present and hang. The guest
# would distrust the clocks of emulated processors, which are the host's.
boot() {
    local folder=$1 limit=$2 status=0 reader machine
    shift 2
    pack "$folder/guest" "$folder/guest.cpio"
    cat "$kernel/archive.cpio" "$programs/archive.cpio" "${more_archives[@]}" "$folder/guest.cpio" >"$folder/initrd"
    rm -f "$folder"/{output,report,console,pid}
    mkfifo "$folder/output"
    cat "$folder/output" &
    reader=$!
    timeout -k 5 "$limit" qemu-system-x86_64 -machine q35 -accel "${RPCRDMA_VM_ACCEL:-tcg,thread=multi}" -cpu max,-erms,-fsrm -m 2048 -smp "$processors" \
        -nodefaults -no-user-config -display none -no-reboot -pidfile "$folder/pid" \
        -kernel "$kernel/vmlinuz" -initrd "$folder/initrd" \
        -append "console=ttyS0 panic=-1 oops=panic loglevel=5 tsc=reliable $lean" \
        -serial "file:$folder/console" -device virtio-serial-pci,max_ports=4 \
        -chardev "file,id=output,path=$folder/output" -device virtserialport,chardev=output,name=output \
        -chardev "file,id=report,path=$folder/report" -device virtserialport,chardev=report,name=report \
        "$@" </dev/null >&2 &
    machine=$!
    # It runs in the background, so that this script can be interrupted; bash would report its end.
    wait "$machine" 2>/dev/null || status=$?
    # If qemu had not started, nothing would have opened the pipe.
    : <>"$folder/output"
    wait "$reader"
    return "$status"
}

# Succeeds if a machine has stopped regularly. Otherwise its console has messages.
ended() {
    grep -qx end "$1/report" 2>/dev/null && return
    echo "tests/vm: $setup hung or stopped; the end of its console:" >&2
    tr -d '\r' <"$1/console" | tail -n 150 >&2
    return 1
}

# Kills the machine of a folder at once, like a loss of power.
kill_machine() {
    kill -KILL "$(cat "$1/pid")"
    rm "$1/pid"
}

# Kills all remaining machines in the folder $1: qemu removes the file when it ends regularly.
kill_machines() {
    local pid
    while read -r pid; do
        kill_machine "$(dirname "$pid")"
    done < <(find "$1" -name pid)
    wait 2>/dev/null
}

clean_up() {
    kill_machines "$work"
    rm -rf "$work"
}

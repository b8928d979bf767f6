# shellcheck shell=bash
# A disk with ext4 for jobs whose server has a directory: a device of the device mapper on a disk in
# memory. It can lose what was not flushed, as in a power cut, and its writes can fail.
export DM_DISABLE_UDEV=1 # dmsetup makes the names in /dev itself
disk_sectors=$((1 << 21)) # 1 GiB

# Makes the disk and mounts it at $1; a disk that an earlier job has left is removed.
make_disk() {
    disk_mount=$1
    remove_disk
    modprobe brd rd_nr=1 rd_size=$((disk_sectors / 2))
    modprobe dm-mod
    dmsetup create disk --table "$(disk_table works)"
    # Nothing is left for threads of the kernel to write later.
    mkfs.ext4 -q -b 4096 -N 16384 -J size=16 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard /dev/mapper/disk
    mkdir -p "$disk_mount"
    mount_disk
    rmdir "$disk_mount/lost+found"
}

# The kernel commits the journal only when it is told to: by default it also does every 5 seconds,
# which could hide that the server did not. The disk has no cache to flush.
mount_disk() { mount -t ext4 -o commit=1000,nobarrier /dev/mapper/disk "$disk_mount"; }

# It may be in use for some time after its server was killed.
unmount_disk() {
    local tries=100
    until umount "$disk_mount"; do
        [ $((tries--)) != 0 ] || return
        sleep 0.1
    done
}

# Its memory is free when the module is gone.
remove_disk() {
    while grep -q '^/dev/mapper/disk ' /proc/mounts; do umount /dev/mapper/disk || return; done
    [ ! -e /dev/mapper/disk ] || dmsetup remove disk
    ! grep -q '^brd ' /proc/modules || rmmod brd
}

# $1: `works`, `drops` or `fails`; it is about writes.
disk_table() {
    local flakey="flakey /dev/ram0 0 0 3600 1" # always down
    case $1 in
    works) echo "0 $disk_sectors linear /dev/ram0 0" ;;
    drops) echo "0 $disk_sectors $flakey drop_writes" ;;
    fails) echo "0 $disk_sectors $flakey error_writes" ;;
    esac
}

# $1: as for disk_table. The file system must not be frozen meanwhile, which would flush it.
set_disk() {
    dmsetup load disk --table "$(disk_table "$1")"
    dmsetup suspend --nolockfs disk
    dmsetup resume disk
}

# Cuts the power of the host, and starts it again: what was not flushed is lost. The server has been
# killed before, so that it confirms nothing that is lost afterwards.
cut_power() {
    echo text >"$disk_mount/not-flushed"
    set_disk drops
    unmount_disk
    set_disk works
    mount_disk
    # Otherwise the cut would test nothing.
    [ ! -e "$disk_mount/not-flushed" ]
}

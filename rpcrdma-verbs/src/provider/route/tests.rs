//! Simulated hosts in folders: routes in the system's format, and devices as links.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::symlink;

use super::*;

/// A host with `eth0` on hardware with an RDMA device, `eth1` on other hardware, and a VLAN on a
/// bond of `eth0`; and rxe on `eth1`, which is no hardware.
struct Fake {
    host: Host,
}

impl Fake {
    fn new(name: &str, state: &str, kind: &str) -> Self {
        let root = std::env::temp_dir().join(format!("rpcrdma-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let folder = |path: &str| std::fs::create_dir_all(root.join(path)).unwrap();
        let link = |path: &str, to: &str| symlink(root.join(to), root.join(path)).unwrap();
        let file = |path: &str, text: &str| std::fs::write(root.join(path), text).unwrap();
        for path in [
            "proc/net",
            "sys/devices/pci0/a",
            "sys/devices/pci0/b",
            "sys/class/net/lo",
            "sys/class/net/eth0",
            "sys/class/net/eth1",
            "sys/class/net/bond0",
            "sys/class/net/bond0.7",
            "sys/class/infiniband/mlx5_0/ports/1",
            "sys/class/infiniband/rxe0/ports/1",
        ] {
            folder(path);
        }
        link("sys/class/net/eth0/device", "sys/devices/pci0/a");
        link("sys/class/net/eth1/device", "sys/devices/pci0/b");
        link("sys/class/net/bond0/lower_eth0", "sys/class/net/eth0");
        link("sys/class/net/bond0.7/lower_bond0", "sys/class/net/bond0");
        link("sys/class/infiniband/mlx5_0/device", "sys/devices/pci0/a");
        for (device, state, kind) in [("mlx5_0", state, kind), ("rxe0", "4: ACTIVE", "1: CA")] {
            let of = |path| format!("sys/class/infiniband/{device}/{path}");
            file(&of("node_type"), kind);
            file(&of("ports/1/state"), state);
        }
        let number = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let route = |interface: &str, to: [u8; 4], flags, metric, mask: [u8; 4]| {
            let (to, mask) = (number(to), number(mask));
            format!("{interface}\t{to}\t00000000\t{flags}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n")
        };
        let table = [
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n".to_owned(),
            route("eth1", [0; 4], "0003", 100, [0; 4]),
            route("eth0", [0; 4], "0003", 200, [0; 4]),
            route("eth0", [192, 0, 2, 0], "0001", 0, [255, 255, 255, 0]),
            route("eth1", [192, 0, 2, 128], "0001", 0, [255, 255, 255, 128]),
            route("bond0.7", [198, 51, 100, 0], "0001", 0, [255, 255, 255, 0]),
            route("eth0", [203, 0, 113, 0], "0201", 0, [255, 255, 255, 0]),
        ];
        file("proc/net/route", &table.concat());
        let route = |to: &str, prefix, metric, flags, interface| {
            let none = "0".repeat(32);
            let to = to.parse::<Ipv6Addr>().unwrap().to_bits();
            format!("{to:032x} {prefix} {none} 00 {none} {metric} 1 0 {flags}   {interface}\n")
        };
        let table = [
            route("2001:db8::", "20", "00000100", "00000001", "eth1"),
            route("2001:db8:1::", "30", "00000100", "00000001", "eth0"),
            route("2001:db8:1::5", "80", "00000000", "80200001", "lo"),
            route("::", "00", "ffffffff", "00200200", "lo"),
        ];
        file("proc/net/ipv6_route", &table.concat());
        Self {
            host: Host { root },
        }
    }

    fn towards(&self, peer: &str) -> Option<String> {
        self.host.device_towards(peer.parse().unwrap())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.host.root);
    }
}

#[test]
fn the_route_selects_the_device() {
    let fake = Fake::new("route", "4: ACTIVE", "1: CA");
    let hardware = Some("mlx5_0".to_owned());
    for (peer, expected) in [
        ("192.0.2.1", true),
        // The longer prefix uses the other interface, which has rxe.
        ("192.0.2.129", false),
        // The default route with the lower metric.
        ("8.8.8.8", false),
        ("198.51.100.7", true),
        ("203.0.113.1", false),
        ("127.0.0.1", false),
        ("::ffff:192.0.2.1", true),
        ("2001:db8::1", false),
        ("2001:db8:1::1", true),
        // Local addresses, and addresses without a route.
        ("2001:db8:1::5", false),
        ("2002::1", false),
        ("::1", false),
    ] {
        let expected = hardware.clone().filter(|_| expected);
        assert_eq!(fake.towards(peer), expected, "{peer}");
    }
    assert_eq!(fake.host.devices(), ["mlx5_0"]);
}

#[test]
fn unusable_devices_are_not_selected() {
    for (name, state, kind) in [
        ("down", "1: DOWN", "1: CA"),
        ("efa", "4: ACTIVE", "7: unspecified"),
    ] {
        let fake = Fake::new(name, state, kind);
        assert_eq!(fake.towards("192.0.2.1"), None);
        assert_eq!(fake.host.devices(), [""; 0]);
    }
    let fake = Fake::new("rnic", "4: ACTIVE", "4: RNIC");
    assert!(fake.towards("192.0.2.1").is_some());
}

#[test]
fn a_host_without_tables_uses_iwarp() {
    let root = std::env::temp_dir().join("rpcrdma-no-such-host");
    let host = Host { root };
    assert_eq!(host.device_towards([192, 0, 2, 1].into()), None);
    assert_eq!(host.devices(), [""; 0]);
    // There is always a device, whatever this host has.
    let _ = device_towards([192, 0, 2, 1].into());
    let _ = device_for_listener(Ipv6Addr::UNSPECIFIED.into());
}

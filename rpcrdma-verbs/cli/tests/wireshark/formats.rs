//! The same packets in each format of capture files and with each link type.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::damage::records;
use crate::tree::Packet;
use crate::{Fixture, bytes, events, of_kind, rpcrdma};

/// A packet of IP: the time in microseconds, and the bytes.
#[derive(Clone)]
struct IpPacket {
    time: u64,
    bytes: Vec<u8>,
}

impl IpPacket {
    fn is_v6(&self) -> bool {
        self.bytes[0] >> 4 == 6
    }

    /// Returns the type of Ethernet.
    fn ether_type(&self) -> [u8; 2] {
        if self.is_v6() {
            [0x86, 0xdd]
        } else {
            [0x08, 0x00]
        }
    }

    /// Returns the packet between other addresses, which this number distinguishes.
    fn between(&self, number: u8) -> Self {
        let mut bytes = self.bytes.clone();
        (bytes[14], bytes[18]) = (number, number);
        let time = self.time;
        Self { time, bytes }
    }

    /// Returns the packet with a header of IPv6.
    fn as_v6(&self) -> Self {
        let (header, payload) = self.bytes.split_at(20);
        let address = |end: u8| {
            [
                0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, header[14], end,
            ]
        };
        let length = u16::try_from(payload.len()).unwrap();
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend(length.to_be_bytes());
        bytes.extend([header[9], 64]);
        bytes.extend(address(header[15]));
        bytes.extend(address(header[19]));
        bytes.extend(payload);
        let time = self.time;
        Self { time, bytes }
    }
}

/// A link type.
#[derive(Clone, Copy)]
struct Link {
    name: &'static str,
    number: u16,
    /// Returns the header before a packet.
    header: fn(&IpPacket) -> Vec<u8>,
}

fn ethernet(tags: &[[u8; 2]], packet: &IpPacket) -> Vec<u8> {
    let mut header = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in tags {
        header.extend(tag);
        header.extend([0x20, 0x64]);
    }
    header.extend(packet.ether_type());
    header
}

/// The first version of "cooked" frames, with a tag.
fn cooked(tags: &[[u8; 2]], packet: &IpPacket) -> Vec<u8> {
    // A received packet of an Ethernet interface.
    let head = [0, 0, 0, 1, 0, 6];
    [&head[..], &ethernet(tags, packet)[4..]].concat()
}

fn cooked2(packet: &IpPacket) -> Vec<u8> {
    let rest = [0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    [&packet.ether_type()[..], &rest].concat()
}

/// Returns the address family of some system.
fn family(packet: &IpPacket, v6: u32) -> u32 {
    if packet.is_v6() { v6 } else { 2 }
}

const ETHERNET: Link = Link {
    name: "Ethernet",
    number: 1,
    header: |packet| ethernet(&[], packet),
};

const NULL_OF_LINUX: &str = "NULL of Linux";

const LINKS: [Link; 12] = [
    ETHERNET,
    Link {
        name: "Ethernet with 802.1Q",
        number: 1,
        header: |packet| ethernet(&[[0x81, 0]], packet),
    },
    Link {
        name: "Ethernet with 802.1ad (QinQ)",
        number: 1,
        header: |packet| ethernet(&[[0x88, 0xa8], [0x81, 0]], packet),
    },
    Link {
        name: "Ethernet with 0x9100 (QinQ before the standard)",
        number: 1,
        header: |packet| ethernet(&[[0x91, 0], [0x81, 0]], packet),
    },
    Link {
        name: "LINUX_SLL",
        number: 113,
        header: |packet| cooked(&[], packet),
    },
    Link {
        name: "LINUX_SLL with 802.1Q",
        number: 113,
        header: |packet| cooked(&[[0x81, 0]], packet),
    },
    Link {
        name: "LINUX_SLL2",
        number: 276,
        header: cooked2,
    },
    Link {
        name: NULL_OF_LINUX,
        number: 0,
        header: |packet| family(packet, 10).to_le_bytes().to_vec(),
    },
    Link {
        name: "NULL of a big-endian FreeBSD",
        number: 0,
        header: |packet| family(packet, 28).to_be_bytes().to_vec(),
    },
    Link {
        name: "LOOP of OpenBSD",
        number: 108,
        header: |packet| family(packet, 24).to_be_bytes().to_vec(),
    },
    Link {
        name: "RAW",
        number: 101,
        header: |_| Vec::new(),
    },
    Link {
        name: "RAW of OpenBSD",
        number: 12,
        header: |_| Vec::new(),
    },
];

/// The link types for one version of IP.
const RAW_IP: [Link; 2] = [
    Link {
        name: "IPV4",
        number: 228,
        header: |_| Vec::new(),
    },
    Link {
        name: "IPV6",
        number: 229,
        header: |_| Vec::new(),
    },
];

/// A format of files.
#[derive(Clone, Copy, Debug)]
struct Format {
    ng: bool,
    big: bool,
    nanoseconds: bool,
}

const PCAP: Format = Format {
    ng: false,
    big: false,
    nanoseconds: false,
};

impl Format {
    fn all() -> impl Iterator<Item = Self> {
        (0..8).map(|bits| Self {
            ng: bits & 1 > 0,
            big: bits & 2 > 0,
            nanoseconds: bits & 4 > 0,
        })
    }

    fn words(self, words: &[u32]) -> Vec<u8> {
        let bytes = |word: &u32| match self.big {
            true => word.to_be_bytes(),
            false => word.to_le_bytes(),
        };
        words.iter().flat_map(bytes).collect()
    }

    fn half(self, half: u16) -> [u8; 2] {
        if self.big {
            half.to_be_bytes()
        } else {
            half.to_le_bytes()
        }
    }

    /// Returns a file with an interface of each link type, and its packets. A pcap file has one.
    fn file(self, interfaces: &[(Link, Vec<IpPacket>)]) -> Vec<u8> {
        let mut file = self.header(interfaces);
        for (number, (link, packets)) in (0..).zip(interfaces) {
            for packet in packets {
                let frame = [&(link.header)(packet)[..], &packet.bytes].concat();
                file.extend(self.record(number, packet.time, &frame));
            }
        }
        file
    }

    fn header(self, interfaces: &[(Link, Vec<IpPacket>)]) -> Vec<u8> {
        if !self.ng {
            let [(link, _)] = interfaces else {
                panic!("a pcap file has one interface");
            };
            let magic = if self.nanoseconds {
                0xa1b2_3c4d
            } else {
                0xa1b2_c3d4
            };
            let version = [self.half(2), self.half(4)].concat();
            let rest = self.words(&[0, 0, 1 << 18, link.number.into()]);
            return [self.words(&[magic]), version, rest].concat();
        }
        let version = [self.half(1), self.half(0)].concat();
        let section = [self.words(&[0x1a2b_3c4d]), version, vec![0xff; 8]].concat();
        let mut blocks = self.block(0x0a0d_0d0a, &section);
        let resolution = if self.nanoseconds { 9 } else { 6 };
        let option = [
            self.half(9),
            self.half(1),
            [resolution, 0],
            [0; 2],
            [0; 2],
            [0; 2],
        ]
        .concat();
        for (link, _) in interfaces {
            let number = [self.half(link.number), [0; 2]].concat();
            blocks.extend(self.block(1, &[number, self.words(&[0]), option.clone()].concat()));
        }
        blocks
    }

    fn record(self, interface: u32, time: u64, frame: &[u8]) -> Vec<u8> {
        let factor = if self.nanoseconds { 1000 } else { 1 };
        let length = u32::try_from(frame.len()).unwrap();
        if self.ng {
            let time = time * factor;
            let (high, low) = (time >> 32, time & u64::from(u32::MAX));
            let [high, low] = [high, low].map(|word| u32::try_from(word).unwrap());
            let head = self.words(&[interface, high, low, length, length]);
            return self.block(6, &[&head, frame].concat());
        }
        let [seconds, part] =
            [time / 1_000_000, time % 1_000_000 * factor].map(|word| u32::try_from(word).unwrap());
        let head = self.words(&[seconds, part, length, length]);
        [&head, frame].concat()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = u32::try_from(12 + body.len()).unwrap();
        [self.words(&[kind, length]), body, self.words(&[length])].concat()
    }
}

/// Returns packets of the demonstration, with messages in one and in several packets.
fn packets(fixture: &Fixture, frames: &str) -> Vec<IpPacket> {
    let file = fixture.file("demo.pcap");
    rpcrdma(&["demo", "--frames", frames, "--pcap", file.to_str().unwrap()]);
    let file = std::fs::read(&file).unwrap();
    let (_, records) = records(&file);
    let word = |record: &[u8], at: usize| {
        u64::from(u32::from_le_bytes(record[at..at + 4].try_into().unwrap()))
    };
    let packets = records.iter().take(150).map(|record| IpPacket {
        time: word(record, 0) * 1_000_000 + word(record, 4),
        bytes: record[16 + 14..].to_vec(),
    });
    packets.collect()
}

/// Returns the messages that `rpcrdma decode` finds, as it prints them.
fn messages(file: &Path) -> Vec<Value> {
    let events = events(&["decode", "--pcap", file.to_str().unwrap(), "--json"]);
    assert!(of_kind(&events, "lost").is_empty());
    of_kind(&events, "message").into_iter().cloned().collect()
}

fn bytes_of(messages: &[Value]) -> Vec<Vec<u8>> {
    let messages = messages.iter();
    messages
        .map(|message| bytes(message["message"].as_str().unwrap()))
        .collect()
}

/// Returns the packets that the dissector shows, which must be all right.
fn shown(fixture: &Fixture, file: &Path) -> Option<Vec<Packet>> {
    let packets = fixture.packets(file, &[])?;
    for packet in &packets {
        assert_eq!((packet.lost, packet.problems), (0, 0), "{packet:?}");
    }
    Some(packets)
}

#[test]
fn all_file_formats_are_read() {
    let fixture = Fixture::new();
    let packets = packets(&fixture, "roce");
    let mut before: Option<Vec<Value>> = None;
    for format in Format::all() {
        let file = fixture.file("format");
        std::fs::write(&file, format.file(&[(ETHERNET, packets.clone())])).unwrap();
        let messages = messages(&file);
        assert!(
            messages
                .iter()
                .any(|message| message["packets"].as_u64() > Some(1))
        );
        // With the same times.
        let before = before.get_or_insert_with(|| messages.clone());
        assert_eq!(messages, *before, "{format:?}");
        let Some(packets) = shown(&fixture, &file) else {
            continue;
        };
        fixture.compare(&bytes_of(&messages), &packets);
    }
}

#[test]
fn all_link_types_are_read() {
    let fixture = Fixture::new();
    for frames in ["roce", "iwarp"] {
        let packets = packets(&fixture, frames);
        let file = fixture.file("link");
        std::fs::write(&file, PCAP.file(&[(ETHERNET, packets.clone())])).unwrap();
        let expected = messages(&file);
        let mut interfaces = Vec::new();
        let either = |link| [(link, false), (link, true)];
        let mut all: Vec<(Link, bool)> = LINKS.into_iter().flat_map(either).collect();
        all.extend(RAW_IP.into_iter().zip([false, true]));
        for (number, (link, v6)) in (3..).zip(all) {
            // The connections of each interface differ.
            let packets = packets.iter().map(|packet| match v6 {
                true => packet.between(number).as_v6(),
                false => packet.between(number),
            });
            let interface = [(link, packets.collect())];
            std::fs::write(&file, PCAP.file(&interface)).unwrap();
            assert_eq!(messages(&file), expected, "{}", link.name);
            interfaces.extend(interface);
        }
        let ng = Format { ng: true, ..PCAP };
        std::fs::write(&file, ng.file(&interfaces)).unwrap();
        let of_each = bytes_of(&expected);
        let of_all = |interfaces: &[(Link, Vec<IpPacket>)]| -> Vec<Vec<u8>> {
            let of_each = interfaces.iter().map(|_| of_each.clone());
            of_each.flatten().collect()
        };
        assert_eq!(bytes_of(&messages(&file)), of_all(&interfaces));
        // Wireshark does not know Linux's number of IPv6 in this link type.
        interfaces.retain(|(link, packets)| link.name != NULL_OF_LINUX || !packets[0].is_v6());
        std::fs::write(&file, ng.file(&interfaces)).unwrap();
        if let Some(packets) = shown(&fixture, &file) {
            fixture.compare(&of_all(&interfaces), &packets);
        }
    }
}

/// Returns the status, the output and the errors of `rpcrdma decode`.
fn decode(file: &Path, options: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rpcrdma"))
        .args(["decode", "--pcap"])
        .arg(file)
        .args(options)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), out, error)
}

#[test]
fn other_link_types_are_reported() {
    let fixture = Fixture::new();
    let packets = packets(&fixture, "roce");
    let other = Link {
        name: "USER_0",
        number: 147,
        header: |_| vec![0; 14],
    };
    let file = fixture.file("other");
    for ng in [false, true] {
        let format = Format { ng, ..PCAP };
        std::fs::write(&file, format.file(&[(other, packets.clone())])).unwrap();
        let (status, out, error) = decode(&file, &[]);
        assert_eq!((status, out.as_str()), (Some(1), ""));
        let text = "frames of the link type 147 are not supported";
        assert!(
            error.starts_with("rpcrdma: ") && error.contains(text),
            "{error}"
        );
    }
    // Frames of another interface are decoded.
    let ng = Format { ng: true, ..PCAP };
    let both = [(ETHERNET, packets.clone()), (other, packets[..7].to_vec())];
    std::fs::write(&file, ng.file(&both)).unwrap();
    let (status, out, _) = decode(&file, &[]);
    let end = "7 frames have the link type 147, which is not supported\n";
    assert!(status == Some(0) && out.ends_with(end), "{out}");
    let (_, out, _) = decode(&file, &["--json"]);
    let summary: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["unsupported"]["147"], 7);
    assert!(summary["messages"].as_u64() > Some(10));
}

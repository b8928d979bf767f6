//! The client with the kernel's NFS server over RDMA and TCP. Results are compared with the
//! server's disk.
//!
//! Run as root in a dedicated machine. `RPCRDMA_DEVICE` names an RDMA device, `RPCRDMA_NFSD` the
//! RDMA address of the kernel's NFS server, `RPCRDMA_NFSD_TCP` and `RPCRDMA_MOUNTD` its TCP address
//! and that of its mountd, and `RPCRDMA_EXPORT` the directory that it exports.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use oncrpc::{AuthSys, CallOptions, Channel, tcp};
use rpcrdma_nfs::client::{Client, mount};
use rpcrdma_nfs::nfs3::{
    ACCESS3_LOOKUP, ACCESS3_READ, Createhow3, Ftype3, Mknoddata3, Nfsstat3, Sattr3, SetMode3,
    SetSize3, StableHow,
};
use rpcrdma_nfs::{FileHandle, Object};
use rpcrdma_verbs::ClientConfig;
use rpcrdma_verbs::provider::any::AnyDevice;

type Nfs = Client<Channel>;

/// A directory of the server: its handle at the client, and its path on the server's disk.
struct Exported {
    nfs: Nfs,
    dir: FileHandle,
    disk: PathBuf,
}

fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    if value.is_none() {
        println!("{name} is missing: there is nothing to run this on");
    }
    value
}

async fn connect(over_rdma: bool) -> Channel {
    if !over_rdma {
        return tcp::connect(&variable("RPCRDMA_NFSD_TCP").unwrap())
            .await
            .unwrap();
    }
    let device = AnyDevice::open(&variable("RPCRDMA_DEVICE").unwrap()).unwrap();
    let server = variable("RPCRDMA_NFSD").unwrap();
    rpcrdma_verbs::connect(&device, server, ClientConfig::new()).unwrap()
}

/// Runs a test over RDMA and over TCP, each time in a new directory.
fn with_nfsd(name: &str, test: impl AsyncFn(&Exported)) {
    let (Some(mountd), Some(export)) = (variable("RPCRDMA_MOUNTD"), variable("RPCRDMA_EXPORT"))
    else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let run = async |over_rdma| {
        let options = CallOptions::DEFAULT.credentials(AuthSys::new("tester"));
        let options = options.timeout(Duration::from_secs(20));
        let mounting = tcp::connect(&mountd).await.unwrap();
        let root = mount(mounting, &options, &export).await.unwrap();
        let nfs = Client::new(connect(over_rdma).await, options, root);
        let nfs = nfs.await.unwrap();
        let name = format!("{name}-{over_rdma}");
        let dir = nfs.make_dir(&root, &name, &mode(0o755)).await.unwrap();
        let dir = dir.handle;
        let disk = Path::new(&export).join(name);
        test(&Exported { nfs, dir, disk }).await;
    };
    for over_rdma in [true, false] {
        runtime.block_on(run(over_rdma));
    }
}

fn mode(bits: u32) -> Sattr3 {
    Sattr3 {
        mode: SetMode3::True(bits),
        ..Sattr3::UNSET
    }
}

impl Exported {
    async fn create(&self, name: &str) -> Object {
        let how = Createhow3::Guarded(mode(0o644));
        self.nfs.create(&self.dir, name, &how).await.unwrap()
    }

    /// Returns the content of a file on the server's disk.
    fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.disk.join(name)).unwrap()
    }

    /// The tested lengths: around 4 bytes, a page, 64 KiB, and the maximum transfer size.
    fn lengths(&self) -> Vec<usize> {
        let limits = self.nfs.limits();
        let (read, write) = (limits.read as usize, limits.write as usize);
        let around = [4, 4096, 65_536, read, write];
        let mut lengths: Vec<usize> = around.iter().flat_map(|at| at - 1..=at + 1).collect();
        lengths.extend([0, 1, 77, 3 * write + 5]);
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..=250).cycle().skip(seed % 251).take(len).collect()
}

#[test]
fn writes_reach_the_disk() {
    with_nfsd("write", async |exported| {
        let stable = [
            StableHow::Unstable,
            StableHow::DataSync,
            StableHow::FileSync,
        ];
        for (at, len) in exported.lengths().into_iter().enumerate() {
            for (how, offset) in stable.into_iter().zip([0, 1, 4093_usize]) {
                let name = format!("file-{len}-{offset}");
                let file = exported.create(&name).await.handle;
                let data = pattern(len, at);
                let nfs = &exported.nfs;
                nfs.write_all(&file, offset as u64, &data[..], how)
                    .await
                    .unwrap();
                let mut expected = data;
                if len > 0 {
                    expected.splice(0..0, vec![0; offset]);
                }
                assert!(exported.content(&name) == expected, "{len} at {offset}");
                fs::remove_file(exported.disk.join(&name)).unwrap();
            }
        }
    });
}

#[test]
fn one_write_respects_the_servers_limit() {
    with_nfsd("limit", async |exported| {
        let file = exported.create("file").await.handle;
        let most = exported.nfs.limits().write as usize;
        let data = pattern(most + 1, 3);
        for len in [0, 1, 3, most - 1, most, most + 1] {
            let written = exported
                .nfs
                .write(&file, 0, &data[..len], StableHow::Unstable);
            let written = written.await.unwrap();
            assert_eq!(written.count as usize, len.min(most));
            let verifier = exported.nfs.commit(&file, 0, written.count).await.unwrap();
            assert_eq!(verifier, written.verifier);
        }
        assert!(exported.content("file") == data[..most]);
    });
}

#[test]
fn reads_match_the_disk() {
    with_nfsd("read", async |exported| {
        let nfs = &exported.nfs;
        for (at, len) in exported.lengths().into_iter().enumerate() {
            let name = format!("file-{len}");
            let content = pattern(len, at);
            fs::write(exported.disk.join(&name), &content).unwrap();
            let file = nfs.lookup(&exported.dir, &name).await.unwrap();
            assert_eq!(file.attributes.size, len as u64);
            // All of the content, with counts that are too small and too large, from unaligned
            // offsets, at the end, and beyond it.
            for offset in [0, 1, 4095, len.saturating_sub(1), len, len + 1] {
                let rest = content.get(offset..).unwrap_or_default();
                for wanted in [len, len.saturating_sub(1), len + 5] {
                    let mut into = vec![0; wanted];
                    let read = nfs.read_into(&file.handle, offset as u64, &mut into);
                    let count = read.await.unwrap();
                    assert_eq!(count, rest.len().min(wanted), "{len} at {offset}");
                    assert!(into[..count] == rest[..count], "{len} at {offset}");
                }
            }
            fs::remove_file(exported.disk.join(&name)).unwrap();
        }
    });
}

#[test]
fn one_read_reports_the_end_of_file() {
    with_nfsd("eof", async |exported| {
        let content = pattern(10_001, 5);
        fs::write(exported.disk.join("file"), &content).unwrap();
        let file = exported.nfs.lookup(&exported.dir, "file").await.unwrap();
        let cases = [(0, 0), (0, 10_000), (0, 10_001), (9_999, 1), (9_999, 7)];
        for (offset, count) in cases {
            let part = exported.nfs.read(&file.handle, offset as u64, count);
            let part = part.await.unwrap();
            let end = content.len().min(offset + count as usize);
            assert_eq!(part.data.as_bytes(), &content[offset..end]);
            assert_eq!(part.eof, end == content.len(), "{count} at {offset}");
        }
    });
}

#[test]
fn symbolic_links_match_the_disk() {
    with_nfsd("readlink", async |exported| {
        let nfs = &exported.nfs;
        for len in [1, 3, 4, 100, 1000, 1023, 1024, 1025, 3000, 4095] {
            let (ours, theirs) = (format!("ours-{len}"), format!("theirs-{len}"));
            let path = "p".repeat(len);
            nfs.make_symlink(&exported.dir, &ours, &path, &Sattr3::UNSET)
                .await
                .unwrap();
            assert_eq!(
                fs::read_link(exported.disk.join(&ours)).unwrap(),
                Path::new(&path)
            );
            std::os::unix::fs::symlink(&path, exported.disk.join(&theirs)).unwrap();
            let link = nfs.lookup(&exported.dir, &theirs).await.unwrap();
            let found = nfs.read_link(&link.handle).await.unwrap();
            assert!(found == path.as_bytes(), "{len}");
        }
    });
}

#[test]
fn directories_match_the_disk() {
    with_nfsd("readdir", async |exported| {
        let nfs = &exported.nfs;
        for count in [0, 1, 40, 3000] {
            let name = format!("dir-{count}");
            let disk = exported.disk.join(&name);
            fs::create_dir(&disk).unwrap();
            for number in 0..count {
                let name = format!("{number:03}-{}", "n".repeat(number % 200));
                fs::write(disk.join(name), pattern(number % 7, 0)).unwrap();
            }
            let metadata = fs::read_dir(&disk).unwrap().map(|entry| {
                let (name, of) = entry
                    .map(|entry| (entry.file_name(), entry.metadata().unwrap()))
                    .unwrap();
                (name.into_encoded_bytes(), (of.ino(), of.len()))
            });
            let expected: BTreeMap<_, _> = metadata.collect();
            assert_eq!(expected.len(), count);
            let dir = nfs.lookup(&exported.dir, &name).await.unwrap().handle;
            for plus in [true, false] {
                let mut stream = if plus {
                    nfs.read_dir_plus(&dir)
                } else {
                    nfs.read_dir(&dir)
                };
                let mut found = BTreeMap::new();
                while let Some(entries) = stream.next().await.unwrap() {
                    for entry in entries {
                        if matches!(&entry.name[..], b"." | b"..") {
                            continue;
                        }
                        let of = match &entry.object {
                            Some(object) => object.attributes,
                            None => nfs.lookup(&dir, &entry.name).await.unwrap().attributes,
                        };
                        assert_eq!(of.fileid, entry.fileid);
                        let before = found.insert(entry.name, (of.fileid, of.size));
                        assert!(before.is_none(), "twice");
                    }
                }
                assert!(found == expected, "{count} {plus}");
            }
        }
    });
}

#[test]
fn names_and_attributes_match_the_disk() {
    with_nfsd("names", async |exported| {
        let Exported { nfs, dir, disk } = exported;
        let at = |name: &str| fs::symlink_metadata(disk.join(name));
        let file = exported.create("file").await;
        assert_eq!(at("file").unwrap().ino(), file.attributes.fileid);
        let new = Sattr3 {
            size: SetSize3::True(12_345),
            ..mode(0o640)
        };
        nfs.set_attributes(&file.handle, &new, None).await.unwrap();
        let found = at("file").unwrap();
        assert_eq!(
            (found.len(), found.permissions().mode() & 0o777),
            (12_345, 0o640)
        );
        let mut other = nfs.attributes(&file.handle).await.unwrap().ctime;
        other.seconds ^= 1;
        let guarded = nfs.set_attributes(&file.handle, &new, Some(other)).await;
        assert_eq!(guarded.unwrap_err().status(), Some(Nfsstat3::NotSync));
        let rights = ACCESS3_READ | ACCESS3_LOOKUP;
        assert_eq!(nfs.access(dir, rights).await.unwrap(), rights);

        let sub = nfs.make_dir(dir, "sub", &mode(0o711)).await.unwrap();
        assert_eq!(sub.attributes.r#type, Ftype3::Dir);
        nfs.rename((dir, b"file"), (&sub.handle, b"moved"))
            .await
            .unwrap();
        nfs.link(&file.handle, dir, "linked").await.unwrap();
        assert!(at("file").is_err());
        assert_eq!(at("sub/moved").unwrap().nlink(), 2);
        let pipe = Mknoddata3::Fifo(mode(0o600));
        nfs.make_node(dir, "pipe", &pipe).await.unwrap();
        assert!(at("pipe").unwrap().file_type().is_fifo());

        let full = nfs.remove_dir(dir, "sub").await.unwrap_err();
        assert_eq!(full.status(), Some(Nfsstat3::Notempty));
        nfs.remove(&sub.handle, "moved").await.unwrap();
        nfs.remove_dir(dir, "sub").await.unwrap();
        assert!(at("sub").is_err() && at("linked").unwrap().nlink() == 1);
        let gone = nfs.lookup_path(dir, "sub/moved").await.unwrap_err();
        assert_eq!(gone.status(), Some(Nfsstat3::Noent));
        assert!(nfs.fs_stat().await.unwrap().tbytes > 0);
        assert_eq!(nfs.path_conf(dir).await.unwrap().name_max, 255);
    });
}

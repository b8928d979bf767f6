//! What the client does with each server.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rpcrdma_nfs::nfs3::{
    ACCESS3_LOOKUP, ACCESS3_READ, Ftype3, Mknoddata3, Nfsstat3, Sattr3, SetSize3, StableHow,
};

use super::{Exported, mode, pattern};

/// Writes files of all lengths, at several offsets and in each way that WRITE has.
pub(crate) async fn writes(exported: &Exported) {
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
}

/// Writes by one call, up to beyond the server's limit.
pub(crate) async fn one_write(exported: &Exported) {
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
}

/// Reads files of all lengths. `wanted` turns each number of bytes into the one that is read.
pub(crate) async fn reads(exported: &Exported, wanted: fn(usize) -> usize) {
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
            for wanted in [len, len.saturating_sub(1), len + 5].map(wanted) {
                let mut into = vec![0; wanted];
                let read = nfs.read_into(&file.handle, offset as u64, &mut into);
                let count = read.await.unwrap();
                assert_eq!(count, rest.len().min(wanted), "{len} at {offset}");
                assert!(into[..count] == rest[..count], "{len} at {offset}");
            }
        }
        fs::remove_file(exported.disk.join(&name)).unwrap();
    }
}

/// Reads offsets and counts of a file of 10,001 bytes.
pub(crate) async fn end_of_file(exported: &Exported, parts: &[(usize, u32)]) {
    let content = pattern(10_001, 5);
    fs::write(exported.disk.join("file"), &content).unwrap();
    let file = exported.nfs.lookup(&exported.dir, "file").await.unwrap();
    for &(offset, count) in parts {
        let part = exported.nfs.read(&file.handle, offset as u64, count);
        let part = part.await.unwrap();
        let start = content.len().min(offset);
        let end = content.len().min(offset + count as usize);
        assert_eq!(part.data.as_bytes(), &content[start..end]);
        assert_eq!(part.eof, end == content.len(), "{count} at {offset}");
    }
}

/// Makes and reads symbolic links whose paths have these lengths.
pub(crate) async fn links(exported: &Exported, lengths: &[usize]) {
    let nfs = &exported.nfs;
    for &len in lengths {
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
}

/// Lists directories of these numbers of files.
pub(crate) async fn directories(exported: &Exported, counts: &[usize]) {
    let nfs = &exported.nfs;
    for &count in counts {
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
}

/// Changes names and attributes. The server's longest name is that of PATHCONF.
pub(crate) async fn names(exported: &Exported, name_max: u32) {
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
    assert_eq!(nfs.path_conf(dir).await.unwrap().name_max, name_max);
}

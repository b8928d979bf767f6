//! Names, attributes and directories.

use std::collections::BTreeSet;

use rpcrdma_nfs::client::TransferLimits;
use rpcrdma_nfs::nfs3::{
    ACCESS3_EXECUTE, ACCESS3_READ, Ftype3, Mknoddata3, Nfsstat3, Sattr3, SetSize3,
};

use crate::client::support::{everywhere, file, mode};

#[test]
fn objects_are_created_found_and_removed() {
    everywhere(TransferLimits::DEFAULT, async |nfs| {
        let root = *nfs.root();
        let dir = nfs.make_dir(&root, "dir", &mode(0o755)).await.unwrap();
        assert_eq!(dir.attributes.r#type, Ftype3::Dir);
        let made = file(nfs, &dir.handle, "file").await;
        let found = nfs.lookup_path(&root, "/dir//file").await.unwrap();
        assert_eq!(found.handle, made.handle);
        assert_eq!(nfs.lookup_path(&root, "/").await.unwrap().handle, root);

        let (from, to) = ((&dir.handle, &b"file"[..]), (&root, &b"moved"[..]));
        nfs.rename(from, to).await.unwrap();
        nfs.link(&made.handle, &root, "other").await.unwrap();
        assert_eq!(nfs.attributes(&made.handle).await.unwrap().nlink, 2);
        let pipe = Mknoddata3::Fifo(mode(0o600));
        let pipe = nfs.make_node(&root, "pipe", &pipe).await.unwrap();
        assert_eq!(pipe.attributes.r#type, Ftype3::Fifo);

        for name in ["moved", "other", "pipe"] {
            nfs.remove(&root, name).await.unwrap();
        }
        nfs.remove_dir(&root, "dir").await.unwrap();
        let gone = nfs.lookup_path(&root, "dir/file").await.unwrap_err();
        assert_eq!(gone.status(), Some(Nfsstat3::Noent));
        assert_eq!(gone.to_string(), "NFSPROC3_LOOKUP: NFS3ERR_NOENT");
    });
}

#[test]
fn symbolic_links_are_read_and_not_followed() {
    everywhere(TransferLimits::DEFAULT, async |nfs| {
        let root = *nfs.root();
        for len in [1, 100, 4000] {
            let (name, path) = (format!("link-{len}"), vec![b'x'; len]);
            let made = nfs.make_symlink(&root, &name, &path, &Sattr3::UNSET);
            let made = made.await.unwrap();
            assert_eq!(made.attributes.r#type, Ftype3::Lnk);
            assert_eq!(nfs.read_link(&made.handle).await.unwrap(), path);
            let through = nfs.lookup_path(&root, format!("{name}/a")).await;
            assert_eq!(through.unwrap_err().status(), Some(Nfsstat3::Notdir));
        }
    });
}

#[test]
fn attributes_are_set_unless_the_guard_differs() {
    everywhere(TransferLimits::DEFAULT, async |nfs| {
        let made = file(nfs, nfs.root(), "file").await;
        let short = Sattr3 {
            size: SetSize3::True(5),
            ..mode(0o500)
        };
        let set = nfs.set_attributes(&made.handle, &short, None).await;
        let set = match set.unwrap() {
            Some(attributes) => attributes,
            None => nfs.attributes(&made.handle).await.unwrap(),
        };
        assert_eq!((set.size, set.mode & 0o777), (5, 0o500));
        let wanted = ACCESS3_READ | ACCESS3_EXECUTE;
        assert_eq!(nfs.access(&made.handle, wanted).await.unwrap(), wanted);

        let mut other = set.ctime;
        other.seconds ^= 1;
        let guarded = nfs.set_attributes(&made.handle, &short, Some(other)).await;
        assert_eq!(guarded.unwrap_err().status(), Some(Nfsstat3::NotSync));
    });
}

#[test]
fn long_directories_are_listed_in_parts() {
    let mut limits = TransferLimits::DEFAULT;
    limits.listing = 4096;
    everywhere(limits, async |nfs| {
        let dir = nfs.make_dir(nfs.root(), "dir", &mode(0o755)).await;
        let dir = dir.unwrap().handle;
        let names = (0..300).map(|number| format!("a name of a file {number}"));
        let mut expected: BTreeSet<Vec<u8>> = names.map(String::into_bytes).collect();
        for name in &expected {
            file(nfs, &dir, str::from_utf8(name).unwrap()).await;
        }
        expected.extend([b".".to_vec(), b"..".to_vec()]);
        for mut stream in [nfs.read_dir(&dir), nfs.read_dir_plus(&dir)] {
            let (mut found, mut parts) = (BTreeSet::new(), 0);
            while let Some(entries) = stream.next().await.unwrap() {
                parts += 1;
                for entry in entries {
                    if let Some(object) = &entry.object {
                        assert_eq!(object.attributes.fileid, entry.fileid);
                    }
                    assert!(found.insert(entry.name), "twice");
                }
            }
            assert!(found == expected && parts > 3);
        }
    });
}

#[test]
fn a_file_system_describes_itself() {
    everywhere(TransferLimits::DEFAULT, async |nfs| {
        let info = nfs.fs_info().await.unwrap();
        assert_eq!(nfs.limits().read, info.rtmax.min(1 << 20));
        assert!(nfs.fs_stat().await.unwrap().tbytes > 0);
        assert_eq!(nfs.path_conf(nfs.root()).await.unwrap().name_max, 255);
    });
}

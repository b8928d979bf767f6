//! Content of files: READ, WRITE and COMMIT of any length at any offset.

use rpcrdma_nfs::client::TransferLimits;
use rpcrdma_nfs::nfs3::{Nfsstat3, StableHow};

use crate::client::support::{everywhere, file, pattern};

fn limits(most: u32) -> TransferLimits {
    let mut limits = TransferLimits::DEFAULT;
    (limits.read, limits.write) = (most, most);
    limits
}

/// Lengths close to the sizes of pages and to the limits, at unaligned offsets.
const LENGTHS: [usize; 12] = [
    0, 1, 3, 4, 4095, 4096, 4097, 65_535, 65_536, 65_537, 262_145, 1_048_577,
];

fn assert_round_trips(most: u32) {
    everywhere(limits(most), async |nfs| {
        let object = file(nfs, nfs.root(), "file").await;
        let handle = &object.handle;
        let mut expected: Vec<u8> = Vec::new();
        for (seed, len) in (1..).zip(LENGTHS) {
            for (offset, how) in [
                (0, StableHow::Unstable),
                (7, StableHow::FileSync),
                (expected.len() + 5, StableHow::DataSync),
            ] {
                let data = pattern(len, seed);
                let at = offset as u64;
                nfs.write_all(handle, at, &data[..], how).await.unwrap();
                if len > 0 {
                    expected.resize(expected.len().max(offset + len), 0);
                    expected[offset..offset + len].copy_from_slice(&data);
                }
                let mut found = vec![0; len + 9];
                let count = nfs.read_into(handle, at, &mut found).await.unwrap();
                let rest = expected.get(offset..).unwrap_or_default();
                assert!(found[..count] == rest[..count.min(rest.len())], "{len}");
                assert_eq!(count, rest.len().min(len + 9), "{len} {offset}");
            }
        }
        let mut all = Vec::new();
        let mut stream = nfs.read_stream(handle, 0, u64::MAX);
        while let Some(data) = stream.next().await.unwrap() {
            assert!(!data.is_empty() && data.len() <= most as usize);
            all.extend_from_slice(&data);
        }
        assert!(all == expected);
        assert!(stream.next().await.unwrap().is_none());
        let size = nfs.attributes(handle).await.unwrap().size;
        assert_eq!(size, expected.len() as u64);
    });
}

#[test]
fn data_round_trip_with_the_servers_limits() {
    assert_round_trips(1 << 20);
}

#[test]
fn data_round_trip_in_many_short_calls() {
    assert_round_trips(10_007);
}

#[test]
fn one_call_respects_the_limits() {
    everywhere(limits(1000), async |nfs| {
        let object = file(nfs, nfs.root(), "file").await;
        let data = pattern(3000, 0);
        let how = StableHow::FileSync;
        let written = nfs.write(&object.handle, 0, &data[..], how).await.unwrap();
        assert_eq!((written.count, written.committed), (1000, how));
        let part = nfs.read(&object.handle, 10, 5000).await.unwrap();
        assert_eq!((part.data.as_bytes(), part.eof), (&data[10..1000], true));
        let end = nfs.read(&object.handle, 1000, 1).await.unwrap();
        assert!(end.data.is_empty() && end.eof);
        let none = nfs.write(&object.handle, 0, &[][..], how).await.unwrap();
        assert_eq!(none.count, 0);
        assert!(
            nfs.read(&object.handle, 3, 0)
                .await
                .unwrap()
                .data
                .is_empty()
        );
    });
}

#[test]
fn commit_returns_the_verifier_of_writes() {
    everywhere(TransferLimits::DEFAULT, async |nfs| {
        let object = file(nfs, nfs.root(), "file").await;
        let data = pattern(5000, 3);
        let how = StableHow::Unstable;
        let written = nfs.write(&object.handle, 0, &data[..], how).await.unwrap();
        let verifier = nfs.commit(&object.handle, 0, 0).await.unwrap();
        assert_eq!(written.verifier, verifier);
    });
}

#[test]
fn a_read_of_a_directory_fails() {
    everywhere(TransferLimits::DEFAULT, async |nfs| {
        let root = *nfs.root();
        let mut stream = nfs.read_stream(&root, 0, 1 << 24);
        let refused = stream.next().await.unwrap_err();
        assert!(matches!(
            refused.status(),
            Some(Nfsstat3::Isdir | Nfsstat3::Inval)
        ));
        assert!(stream.next().await.unwrap().is_none(), "it has ended");
    });
}

#[test]
fn bytes_beyond_the_last_offset_are_not_sent() {
    everywhere(TransferLimits::DEFAULT, async |nfs| {
        let object = file(nfs, nfs.root(), "file").await;
        let handle = &object.handle;
        let beyond = nfs.write_all(handle, u64::MAX, &b"ab"[..], StableHow::FileSync);
        let refused = beyond.await.unwrap_err();
        assert_eq!(refused.execution(), oncrpc::Execution::NotExecuted);
    });
}

//! CB_GETATTR: what the holder of a write delegation tells the server of its file (RFC 8881,
//! sections 10.4.3 and 20.1).

use oncrpc::xdr::Opaque;
use rpcrdma_nfs::nfs4::owned::{CbGetattr4res, Fattr4, NfsCbResop4};
use rpcrdma_nfs::nfs4::{
    CbGetattr4args, FATTR4_CHANGE, FATTR4_SIZE, NfsCbArgop4, Nfsstat4, StableHow4,
};
use rpcrdma_nfs::nfs4_client::{Nfs4Compound, Nfs4Open, Nfs4OpenFile, Nfs4SetAttributes};

use crate::session4::server::Trick;
use crate::session4::{ALL, Carrier, World, run};

const CHANGE: u32 = 1 << FATTR4_CHANGE;
const SIZE: u32 = 1 << FATTR4_SIZE;

impl World {
    /// Sends CB_GETATTR, and returns its attributes or its status.
    async fn ask(&self, name: &'static str, request: &'static [u32]) -> Result<Fattr4, Nfsstat4> {
        let args = NfsCbArgop4::Getattr(CbGetattr4args {
            fh: Opaque::new(name.as_bytes()).unwrap(),
            attr_request: request.into(),
        });
        let reply = self.server.send(args).await;
        assert_eq!(reply.resarray.len(), 2);
        match reply.resarray.into_iter().next_back() {
            Some(NfsCbResop4::Getattr(CbGetattr4res::Ok(ok))) => Ok(ok.obj_attributes),
            Some(NfsCbResop4::Getattr(CbGetattr4res::Default(status))) => {
                assert_eq!(status, reply.status);
                Err(status)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Asks for the change attribute and the size of `file`.
    async fn change_and_size(&self) -> (u64, u64) {
        let found = self.ask("file", &[CHANGE | SIZE]).await.unwrap();
        assert_eq!(found.attrmask, [CHANGE | SIZE]);
        // "The client MUST encode it in network order." Values are in the order of their numbers.
        let values: [u8; 16] = found.attr_vals.try_into().unwrap();
        let (change, size) = values.split_at(8);
        let number = |value: &[u8]| u64::from_be_bytes(value.try_into().unwrap());
        (number(change), number(size))
    }

    fn change(&self, file: &Nfs4OpenFile, size: u64) -> bool {
        let delegation = file.delegation.unwrap();
        self.nfs.record_change(&delegation.stateid, size)
    }

    fn flushed(&self, file: &Nfs4OpenFile) -> bool {
        let delegation = file.delegation.unwrap();
        self.nfs.record_flush(&delegation.stateid)
    }
}

/// "If the file is modified, the value d is returned for the change attribute value. If this file
/// is not currently modified, the client returns the value c." "For the size attribute, the client
/// will report its current view of the file size."
#[test]
fn the_holder_of_a_write_delegation_tells_what_it_has_changed() {
    run(async {
        for carrier in ALL {
            let world = carrier.world(4).await;
            let file = world.write_delegated("file").await;
            let c = world.server.change("file");
            assert_eq!(world.change_and_size().await, (c, 7), "{carrier:?}");
            // Data in a cache, which make the file longer and shorter.
            for size in [5000, 3, 5000] {
                assert!(world.change(&file, size));
                let (d, found) = world.change_and_size().await;
                assert!(d > c && found == size, "{carrier:?}: {d} {found}");
            }
            // As the data are sent, the file stays modified until the holder has no more of them.
            let write = world
                .nfs
                .write_all(&file.handle, file.stateid, 0, &[1; 5000]);
            write.await.unwrap();
            let (d, found) = world.change_and_size().await;
            assert!(d > c && found == 5000);
            assert!(world.server.change("file") > c);
            assert!(world.flushed(&file));
            assert_eq!(world.change_and_size().await, (c, 5000));
            // A recall does not end the delegation.
            let recall = world.server.recall_of("file");
            world.server.call_back(&recall).await.unwrap();
            assert!(world.change(&file, 5001));
            assert!(world.change_and_size().await.0 > c);
        }
    });
}

/// The holder's view of the size is not behind that of the server.
#[test]
fn sizes_follow_what_the_holder_sends() {
    run(async {
        let world = Carrier::VersionTwo.world(4).await;
        let file = world.write_delegated("file").await;
        let c = world.server.change("file");
        let (nfs, handle, stateid) = (&world.nfs, &file.handle, file.stateid);
        let expect = async |size: u64| {
            assert_eq!(world.change_and_size().await, (c, size));
            assert_eq!(world.server.file("file").unwrap().len() as u64, size);
        };
        let set = async |size| {
            let new = Nfs4SetAttributes {
                size,
                ..Nfs4SetAttributes::default()
            };
            nfs.set_attributes(handle, stateid, new).await.unwrap();
        };
        nfs.write_all(handle, stateid, 10, b"abc").await.unwrap();
        expect(13).await;
        nfs.write_all(handle, stateid, 2, b"within").await.unwrap();
        expect(13).await;
        set(Some(4)).await;
        expect(4).await;
        let truncate = Nfs4Open {
            create: Some(Nfs4SetAttributes {
                size: Some(0),
                ..Nfs4SetAttributes::default()
            }),
            ..Nfs4Open::READ
        };
        let opened = nfs.open(nfs.root(), b"file", truncate).await.unwrap();
        assert!(opened.delegation.is_none());
        expect(0).await;
        set(Some(400)).await;
        expect(400).await;
        // COMPOUNDs of the user's own: two files, a handle that GETFH returns after the WRITE,
        // and one whose last operation fails.
        world.server.add_file("other", b"");
        let stable = StableHow4::FileSync4;
        let other = nfs.lookup(nfs.root(), b"other").await.unwrap().0;
        let mut request = Nfs4Compound::new();
        request.put_handle(handle.as_borrowed());
        request.write(stateid, 400, stable, &b"x"[..]);
        request.put_handle(other.as_borrowed());
        request.write(stateid, 9000, stable, &b"y"[..]);
        nfs.session().compound(request).await.unwrap();
        expect(401).await;
        let mut request = Nfs4Compound::new();
        request.put_root().lookup(b"file");
        request.write(stateid, 401, stable, &b"z"[..]);
        request.handle().lookup(b"missing");
        nfs.session().compound(request).await.unwrap_err();
        expect(402).await;
        let mut request = Nfs4Compound::new();
        request.put_handle(handle.as_borrowed()).lookup(b"other");
        request.write(stateid, 10_000, stable, &b"y"[..]);
        nfs.session().compound(request).await.unwrap();
        expect(402).await;
    });
}

/// "The client returns attrmask bits and the associated attribute values only for the change
/// attribute, and attributes that it may change."
#[test]
fn other_attributes_are_not_returned() {
    run(async {
        let world = Carrier::Tcp.world(4).await;
        world.write_delegated("file").await;
        let c = world.server.change("file").to_be_bytes();
        let size = 7_u64.to_be_bytes();
        let cases: [(&'static [u32], u32, Vec<u8>); 5] = [
            (&[CHANGE], CHANGE, c.to_vec()),
            (&[SIZE], SIZE, size.to_vec()),
            (&[u32::MAX; 3], CHANGE | SIZE, [c, size].concat()),
            (&[0, u32::MAX], 0, vec![]),
            (&[], 0, vec![]),
        ];
        for (request, mask, attr_vals) in cases {
            let found = world.ask("file", request).await.unwrap();
            assert_eq!(
                (&found.attrmask[..], found.attr_vals),
                (&[mask][..], attr_vals)
            );
        }
    });
}

/// "If the filehandle specified is not one for which the client holds an OPEN_DELEGATE_WRITE
/// delegation, an NFS4ERR_BADHANDLE error is returned."
#[test]
fn only_files_with_a_write_delegation_are_answered_for() {
    run(async {
        let world = Carrier::VersionTwo.world(4).await;
        let read = world.delegated("read").await;
        let file = world.write_delegated("file").await;
        let badhandle = async |name| {
            let status = world.ask(name, &[CHANGE | SIZE]).await.unwrap_err();
            assert_eq!(status, Nfsstat4::Badhandle, "{name}");
        };
        badhandle("read").await;
        badhandle("unknown").await;
        assert!(!world.change(&read, 1) && !world.flushed(&read));
        world.recall("file", &file).await;
        badhandle("file").await;
        assert!(!world.change(&file, 1) && !world.flushed(&file));
        // Another delegation of the file has values of its own.
        let again = world.write_delegated("file").await;
        assert_eq!(
            world.change_and_size().await,
            (world.server.change("file"), 7)
        );
        assert!(!world.change(&file, 1) && world.change(&again, 1));
    });
}

/// CB_GETATTR may arrive before the reply to the OPEN that grants the delegation.
#[test]
fn the_server_asks_again_while_an_open_is_in_flight() {
    run(async {
        let world = Carrier::Tcp.world(4).await;
        world.server.add_file("file", b"content");
        world.server.play(Trick::LoseReply);
        let how = Nfs4Open::WRITE;
        let open = world.nfs.open(world.nfs.root(), b"file", how);
        let asks = async {
            world.server.played().await;
            world.ask("file", &[SIZE]).await
        };
        tokio::select! {
            opened = open => panic!("{opened:?}"),
            asked = asks => assert_eq!(asked.unwrap_err(), Nfsstat4::Delay),
        }
        let asked = world.ask("file", &[SIZE]).await;
        assert_eq!(asked.unwrap_err(), Nfsstat4::Badhandle);
    });
}

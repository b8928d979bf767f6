//! What a server asks for over the back channel beside CB_RECALL of a read delegation.

use std::time::Duration;

use rpcrdma_nfs::nfs4::owned::NfsCbResop4;
use rpcrdma_nfs::nfs4::{
    CbRecallAny4args, CbRecallAny4res, CbRecallSlot4args, NfsCbArgop4, Nfsstat4,
    OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG,
};
use rpcrdma_nfs::nfs4_client::{Nfs4Open, Nfs4OpenFile, Nfs4Recall};

use crate::session4::{ALL, Carrier, World, run};

impl World {
    pub(crate) async fn write_delegated(&self, name: &str) -> Nfs4OpenFile {
        self.server.add_file(name, b"content");
        let how = Nfs4Open {
            access: OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG,
            ..Nfs4Open::READ
        };
        let file = self.nfs.open(self.nfs.root(), name.as_bytes(), how).await;
        let file = file.unwrap();
        assert!(file.delegation.is_some_and(|given| given.is_write));
        file
    }

    /// Sends CB_RECALL_ANY, and returns its status.
    async fn recall_any(&self, craa_objects_to_keep: u32, types: &'static [u32]) -> Nfsstat4 {
        let args = CbRecallAny4args {
            craa_objects_to_keep,
            craa_type_mask: types.into(),
        };
        let reply = self.server.send(NfsCbArgop4::RecallAny(args)).await;
        let Some(NfsCbResop4::RecallAny(CbRecallAny4res { crar_status })) = reply.resarray.last()
        else {
            panic!("{reply:?}");
        };
        assert_eq!(*crar_status, reply.status);
        reply.status
    }

    /// Returns the recalls that are queued.
    async fn queued(&self) -> Vec<Nfs4Recall> {
        let mut queued = Vec::new();
        let soon = Duration::from_millis(20);
        while let Ok(recall) = tokio::time::timeout(soon, self.callbacks.next_recall()).await {
            queued.push(recall);
        }
        queued
    }
}

/// RFC 8881, section 10.4: an OPEN that conflicts waits until a write delegation is returned.
#[test]
fn a_write_delegation_is_recalled() {
    run(async {
        for carrier in ALL {
            let world = carrier.world(4).await;
            let file = world.write_delegated("file").await;
            let open = async || {
                let root = world.nfs.root();
                world.nfs.open(root, b"file", Nfs4Open::WRITE).await
            };
            assert!(open().await.unwrap_err().is_temporary(), "{carrier:?}");
            world.recall("file", &file).await;
            let other = open().await.unwrap();
            assert!(other.delegation.is_none());
        }
    });
}

const READS: u32 = 1 << 0;
const WRITES: u32 = 1 << 1;

/// RFC 8881, section 20.6.3.
#[test]
fn delegations_of_the_clients_choice_are_recalled() {
    run(async {
        for carrier in [Carrier::Tcp, Carrier::VersionOne, Carrier::VersionTwo] {
            let world = carrier.world(4).await;
            for name in ["a", "b"] {
                world.delegated(name).await;
            }
            world.write_delegated("w").await;
            let session = world.nfs.session().id();
            let any = |keep, reads, writes| Nfs4Recall::Any {
                session,
                keep,
                reads,
                writes,
            };
            let recall = async |keep, types| {
                assert_eq!(world.recall_any(keep, types).await, Nfsstat4::Ok);
            };
            // The count is within the limit.
            recall(3, &[READS | WRITES]).await;
            recall(2, &[READS]).await;
            recall(1, &[WRITES]).await;
            // Directory delegations, and every layout that is defined: the client has none.
            recall(0, &[0b11_1111_0011_0001_1100]).await;
            recall(0, &[]).await;
            assert!(world.queued().await.is_empty());
            // "the effect will be the same as if the lower count was sent, whatever the order".
            recall(0, &[READS]).await;
            recall(1, &[READS]).await;
            recall(0, &[WRITES, 0]).await;
            recall(2, &[READS | WRITES]).await;
            recall(1, &[READS | WRITES]).await;
            let wanted = [any(0, true, false), any(0, false, true), any(1, true, true)];
            assert_eq!(world.queued().await, wanted, "{carrier:?}");
        }
    });
}

/// "When a bit is set in the type mask that corresponds to an undefined type of recallable object,
/// NFS4ERR_INVAL MUST be returned."
#[test]
fn undefined_types_are_not_recalled() {
    run(async {
        let world = Carrier::Tcp.world(4).await;
        world.delegated("file").await;
        let undefined: [&'static [u32]; 3] = [&[READS | 1 << 5], &[1 << 31], &[READS, 1]];
        for types in undefined {
            assert_eq!(world.recall_any(0, types).await, Nfsstat4::Inval);
        }
        assert!(world.queued().await.is_empty());
    });
}

/// RFC 8881, section 20.8.3.
#[test]
fn slots_are_recalled() {
    run(async {
        for carrier in ALL {
            let world = carrier.world(4).await;
            let lookups = async || {
                let lookup = || world.nfs.lookup(world.nfs.root(), b"file");
                world.server.take_slots();
                let (a, b, c, d) = tokio::join!(lookup(), lookup(), lookup(), lookup());
                assert!([a, b, c, d].iter().all(Result::is_ok));
                world.server.take_slots()
            };
            // A lookup may end before another begins, which then takes its slot.
            let uses = async |slots: &[u32]| loop {
                let used = lookups().await;
                assert!(
                    used.iter().all(|slot| slots.contains(slot)),
                    "{carrier:?}: {used:?}"
                );
                if used == slots {
                    break;
                }
            };
            world.server.add_file("file", b"content");
            uses(&[0, 1, 2, 3]).await;
            for (rsa_target_highest_slotid, slots) in [(0, &[0][..]), (1, &[0, 1])] {
                let args = CbRecallSlot4args {
                    rsa_target_highest_slotid,
                };
                let reply = world.server.send(NfsCbArgop4::RecallSlot(args)).await;
                assert_eq!((reply.status, reply.resarray.len()), (Nfsstat4::Ok, 2));
                uses(slots).await;
            }
        }
    });
}

/// A later session, of the same server or of another one, has nothing to do with what a client has
/// held before.
#[test]
fn nothing_is_left_of_a_client_without_sessions() {
    run(async {
        let world = Carrier::Tcp.world(4).await;
        let callbacks = world.callbacks.clone();
        let file = world.write_delegated("file").await;
        let call = world.server.recall_of("file");
        world.server.call_back(&call).await.unwrap();
        assert!(
            world
                .nfs
                .record_change(&file.delegation.unwrap().stateid, 9)
        );
        let held = format!("{callbacks:?}");
        assert_eq!(held, "Nfs4Callbacks(1 sessions, 1 delegations)");
        drop(world);
        let held = format!("{callbacks:?}");
        assert_eq!(held, "Nfs4Callbacks(0 sessions, 0 delegations)");
        let soon = Duration::from_millis(20);
        let recalled = tokio::time::timeout(soon, callbacks.next_recall()).await;
        assert!(recalled.is_err(), "{recalled:?}");
    });
}

/// A client id has nothing to do with the delegations of another one, even of the same number.
#[test]
fn clients_of_one_service_have_delegations_of_their_own() {
    run(async {
        let world = Carrier::Tcp.world(4).await;
        let other = world.another_client().await;
        let file = world.write_delegated("file").await;
        let delegation = file.delegation.unwrap().stateid;
        assert!(world.nfs.record_change(&delegation, 9));
        assert!(!other.record_change(&delegation, 9));
    });
}

//! CB_COMPOUNDs that a server must not send, as bytes: operations that the client does not know, in
//! wrong places, and too many (RFC 8881, sections 19.2 and 20).

use oncrpc::xdr::{self, Decode, Decoder, Encode, Opaque, Procedure, Sink, Trace, Wire};
use oncrpc::{Call, CallError, CallErrorKind, CallOptions, Method, ReplyLimits, ReplyStatus};
use rpcrdma_nfs::nfs4::nfs4_callback::nfs_cb::Compound;
use rpcrdma_nfs::nfs4::owned::{CbCompound4res, CbSequence4res, NfsCbResop4};
use rpcrdma_nfs::nfs4::{
    CbIllegal4res, CbRecall4args, CbRecallSlot4args, CbSequence4args, NfsCbArgop4,
    Nfsstat4 as Status,
};

use crate::session4::{Carrier, World, run};

/// CB_COMPOUND with arguments that are no value of their XDR type.
struct RawCompound;

struct Bytes<'a>(&'a [u8]);

impl Procedure for RawCompound {
    const PROGRAM: u32 = Compound::PROGRAM;
    const VERSION: u32 = Compound::VERSION;
    const NUMBER: u32 = Compound::NUMBER;
    const NAME: &'static str = Compound::NAME;
    type Args<'a> = Bytes<'a>;
    type Reply<'a> = <Compound as Procedure>::Reply<'a>;
}

impl Method for RawCompound {
    type Results = CbCompound4res;

    fn to_results(reply: Self::Reply<'_>) -> Self::Results {
        reply.into()
    }
}

impl Wire for Bytes<'_> {
    const MIN: usize = 0;
}

impl<'a> Decode<'a> for Bytes<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> xdr::Result<Self> {
        let rest = decoder.remaining().len();
        decoder.take(rest).map(Self)
    }

    fn skip<T: Trace>(decoder: &mut Decoder<'a>, _: &mut T) -> xdr::Result<()> {
        decoder.advance(decoder.remaining().len())
    }
}

impl Encode for Bytes<'_> {
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> xdr::Result<()> {
        sink.raw(self.0)
    }
}

/// An operation code that no minor version has, and eight bytes of arguments.
const UNDEFINED: [u8; 12] = [0, 0, 0, 99, 1, 2, 3, 4, 5, 6, 7, 8];

fn bytes(value: &impl Encode) -> Vec<u8> {
    value.encode_to_vec().unwrap()
}

fn recall_slot() -> Vec<u8> {
    bytes(&NfsCbArgop4::RecallSlot(CbRecallSlot4args {
        rsa_target_highest_slotid: 3,
    }))
}

impl World {
    fn cb_sequence(&self, csa_sequenceid: u32, csa_highest_slotid: u32) -> Vec<u8> {
        bytes(&NfsCbArgop4::Sequence(CbSequence4args {
            csa_sessionid: self.nfs.session().id(),
            csa_sequenceid,
            csa_slotid: 0,
            csa_highest_slotid,
            csa_cachethis: true,
            csa_referring_call_lists: (&[]).into(),
        }))
    }

    /// Returns the recall of the delegation of `file`.
    fn recall_bytes(&self) -> Vec<u8> {
        bytes(&NfsCbArgop4::Recall(CbRecall4args {
            stateid: self.server.recall_of("file").recall.0,
            truncate: false,
            fh: Opaque::new(b"file").unwrap(),
        }))
    }

    async fn raw(&self, minor: u32, operations: &[&[u8]]) -> Result<CbCompound4res, CallError> {
        let count = u32::try_from(operations.len()).unwrap();
        let mut args = bytes(&Opaque::<16>::new(b"tag").unwrap());
        for number in [minor, 0, count] {
            args.extend(number.to_be_bytes());
        }
        args.extend(operations.concat());
        let channel = self.server.way_back();
        let call = Call::<_, RawCompound>::new(&channel, &CallOptions::DEFAULT, &Bytes(&args));
        call.reply_limits(ReplyLimits::new(Some(512))).await
    }

    /// Sends a CB_COMPOUND that is refused, and returns its results.
    async fn refused(&self, status: Status, operations: &[&[u8]]) -> Vec<NfsCbResop4> {
        let reply = self.raw(1, operations).await.unwrap();
        assert_eq!((reply.status, &reply.tag[..]), (status, &b"tag"[..]));
        reply.resarray
    }
}

const ILLEGAL: NfsCbResop4 = NfsCbResop4::Illegal(CbIllegal4res {
    status: Status::OpIllegal,
});

fn is_sequence(result: &NfsCbResop4, status: Status) -> bool {
    *result == NfsCbResop4::Sequence(CbSequence4res::Default(status))
}

/// "The status field of CB_ILLEGAL4res MUST be set to NFS4ERR_OP_ILLEGAL." What follows the
/// operation is not executed, and the slot keeps the reply.
#[test]
fn an_undefined_operation_is_illegal() {
    run(async {
        for carrier in [Carrier::Tcp, Carrier::VersionOne, Carrier::VersionTwo] {
            let world = carrier.world(4).await;
            let file = world.delegated("file").await;
            let illegal = 10044_u32.to_be_bytes();
            for (sequence, operation) in [(1, &UNDEFINED[..]), (2, &illegal[..])] {
                let first = world.cb_sequence(sequence, 0);
                let operations = [&first[..], operation, &world.recall_bytes()];
                let results = world.refused(Status::OpIllegal, &operations).await;
                assert_eq!(results.len(), 2, "{carrier:?}");
                assert_eq!(results[1], ILLEGAL);
                let again = world.refused(Status::OpIllegal, &operations).await;
                assert_eq!(again, results);
            }
            let first = world.cb_sequence(3, 0);
            let reply = world.raw(1, &[&first, &world.recall_bytes()]).await;
            assert_eq!(reply.unwrap().status, Status::Ok);
            let held = file.delegation.unwrap().stateid;
            world.callbacks.next_recall().await;
            world
                .nfs
                .return_delegation(&file.handle, held)
                .await
                .unwrap();
        }
    });
}

/// RFC 8881, section 20.9.3.
#[test]
fn cb_sequence_is_the_first_operation_only() {
    run(async {
        let world = Carrier::Tcp.world(4).await;
        world.delegated("file").await;
        let (first, recall) = (world.cb_sequence(1, 0), world.recall_bytes());
        let results = world
            .refused(Status::OpNotInSession, &[&recall, &first])
            .await;
        assert_eq!(results.len(), 1);
        let results = world
            .refused(Status::OpIllegal, &[&UNDEFINED, &first])
            .await;
        assert_eq!(results, [ILLEGAL]);
        let second = world.cb_sequence(2, 0);
        let results = world.refused(Status::SequencePos, &[&first, &second]).await;
        assert!(results.len() == 2 && is_sequence(&results[1], Status::SequencePos));
        let high = world.cb_sequence(2, 16);
        let results = world.refused(Status::BadHighSlot, &[&high, &recall]).await;
        assert!(results.len() == 1 && is_sequence(&results[0], Status::BadHighSlot));
        // No operations, no error.
        assert!(world.refused(Status::Ok, &[]).await.is_empty());
    });
}

/// A session of the client takes 16 operations: a CB_COMPOUND with more leaves its slot unchanged,
/// whatever its last ones are.
#[test]
fn too_many_operations_are_refused() {
    run(async {
        let world = Carrier::VersionTwo.world(4).await;
        let (first, slot) = (world.cb_sequence(1, 0), recall_slot());
        let mut operations = [&slot[..]; 17];
        operations[0] = &first;
        for last in [&slot[..], &UNDEFINED, &[]] {
            operations[16] = last;
            let results = world.refused(Status::TooManyOps, &operations).await;
            assert!(results.len() == 1 && is_sequence(&results[0], Status::TooManyOps));
        }
        operations[2] = &UNDEFINED;
        world.refused(Status::TooManyOps, &operations).await;
        operations[2] = &slot;
        let reply = world.raw(1, &operations[..16]).await.unwrap();
        assert_eq!((reply.status, reply.resarray.len()), (Status::Ok, 16));
    });
}

/// The operations of other minor versions are not looked at (RFC 8881, section 16.2.3).
#[test]
fn other_minor_versions_are_refused() {
    run(async {
        let world = Carrier::VersionTwo.world(4).await;
        let first = world.cb_sequence(1, 0);
        for minor in [0, 3, u32::MAX] {
            let all: [&[&[u8]]; 4] = [&[&first], &[&UNDEFINED], &[&first, &UNDEFINED], &[&[]]];
            for operations in all {
                let reply = world.raw(minor, operations).await.unwrap();
                assert_eq!(reply.status, Status::MinorVersMismatch);
                assert!(reply.resarray.is_empty());
            }
        }
    });
}

/// A defined operation with arguments that cannot be decoded, and no operation where one is
/// announced.
#[test]
fn operations_that_cannot_be_decoded_are_garbage() {
    run(async {
        let world = Carrier::VersionTwo.world(4).await;
        let (first, slot) = (world.cb_sequence(1, 0), recall_slot());
        for last in [&slot[..4], &[]] {
            let error = world.raw(1, &[&first, last]).await.unwrap_err();
            let garbage = CallErrorKind::Status(ReplyStatus::GarbageArgs);
            assert_eq!(format!("{:?}", error.kind()), format!("{garbage:?}"));
        }
        let reply = world.raw(1, &[&first, &slot]).await.unwrap();
        assert_eq!(reply.status, Status::Ok, "the slot is unchanged");
    });
}

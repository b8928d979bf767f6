//! COMPOUND: its operations, the maximum size of its reply, and the check of the reply.
//!
//! The first operation is SEQUENCE, whose arguments `session` sets before each transmission. `add`
//! is the only way to add an operation, and keeps two facts about all of them:
//!
//! - **The size of the reply.** Over RDMA, a reply that exceeds its bound fails. So a bound may be
//!   too large, but never too small.
//! - **Whether the COMPOUND is idempotent.** `session` repeats only an idempotent COMPOUND after
//!   NFS4ERR_RETRY_UNCACHED_REP, and asks the server to cache the replies of others. An operation
//!   belongs in `is_idempotent_alone` only if a second execution does no harm.
//!
//! `files` and `opening` find results by their types. They rely on `check`, which accepts no reply
//! with results of other operations than those of the call.

use std::vec::IntoIter;

use oncrpc::xdr::{Encode as _, Encoder, Item};
use oncrpc::{MAX_REPLY_ITEMS, ReplyLimits};

use super::error::{Nfs4Error, Nfs4Fault};
use crate::nfs4::{
    Getattr4args, Lookup4args, NfsArgop4, NfsFh4, NfsOpnum4, Nfsstat4, Putfh4args, Read4args,
    Sequence4args, StableHow4, Stateid4, Write4args, owned,
};

/// The operations of a COMPOUND. A [`Nfs4Session`](super::Nfs4Session) sends them after SEQUENCE.
///
/// Over RDMA, the data of each [`read`](Self::read) and [`write`](Self::write) have their own chunk
/// if they are more than a few bytes (RFC 8267, section 5).
///
/// ```
/// use rpcrdma_nfs::nfs4::{NfsArgop4, NfsFh4, Stateid4};
/// use rpcrdma_nfs::nfs4_client::Nfs4Compound;
///
/// let handle = NfsFh4::new(&[7; 28])?;
/// let anonymous = Stateid4 { seqid: 0, other: [0; 12] };
/// let mut request = Nfs4Compound::new();
/// request.put_handle(handle).read(anonymous, 0, 4096);
/// // Up to 128 bytes of a handle, and their count.
/// request.add(NfsArgop4::Getfh, 132);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Nfs4Compound<'a> {
    /// SEQUENCE, followed by the operations.
    operations: Vec<NfsArgop4<'a>>,
    /// The maximum bytes of the reply without `items`.
    inline: u64,
    /// The maximum bytes of the data of each READ that may have a Write chunk, in order.
    items: Vec<u32>,
    /// The COMPOUND may be executed twice.
    is_idempotent: bool,
    /// The result of an operation depends on attributes or content, which a later WRITE may change.
    returns_state: bool,
    /// An operation returns content: READ or READDIR.
    returns_content: bool,
}

/// The bytes of a reply before its results (status, tag, count), and those of the SEQUENCE result.
const HEAD: u64 = 12 + 44;

/// The bytes of an operation's number and status.
const STATUS: u64 = 8;

/// The maximum bytes of the RPC header of a reply, with a verifier of 400 bytes (RFC 5531, section
/// 8.2).
const RPC_HEADER: u64 = 24 + 400;

impl<'a> Nfs4Compound<'a> {
    /// Creates a COMPOUND with no operation except SEQUENCE.
    #[must_use]
    pub fn new() -> Self {
        let sequence = NfsArgop4::Sequence(Sequence4args {
            sa_sessionid: [0; 16],
            sa_sequenceid: 0,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        });
        Self {
            operations: vec![sequence],
            inline: HEAD,
            items: Vec::new(),
            is_idempotent: true,
            returns_state: false,
            returns_content: false,
        }
    }

    /// Adds an operation. Its results have at most `max_results` bytes after the number and status,
    /// including the data of a READ: only those of [`read`](Self::read) have a Write chunk.
    pub fn add(&mut self, operation: NfsArgop4<'a>, max_results: u32) -> &mut Self {
        self.classify(&operation);
        self.operations.push(operation);
        self.inline += STATUS + u64::from(max_results);
        self
    }

    /// Notes whether the COMPOUND may be executed twice. A WRITE may, unless an operation before it
    /// returns what the WRITE changes: the second execution would return the new state.
    fn classify(&mut self, operation: &NfsArgop4<'_>) {
        use NfsArgop4 as Op;
        let returns_content = matches!(operation, Op::Read(_) | Op::Readdir(_));
        let returns_attributes =
            matches!(operation, Op::Getattr(_) | Op::Verify(_) | Op::Nverify(_));
        self.returns_content |= returns_content;
        self.returns_state |= returns_content || returns_attributes;
        self.is_idempotent &= match operation {
            Op::Write(_) => !self.returns_state,
            _ => is_idempotent_alone(operation),
        };
    }

    /// Adds PUTFH.
    pub fn put_handle(&mut self, object: NfsFh4<'a>) -> &mut Self {
        self.add(NfsArgop4::Putfh(Putfh4args { object }), 0)
    }

    /// Adds PUTROOTFH.
    pub fn put_root(&mut self) -> &mut Self {
        self.add(NfsArgop4::Putrootfh, 0)
    }

    /// Adds LOOKUP.
    pub fn lookup(&mut self, name: &'a [u8]) -> &mut Self {
        self.add(NfsArgop4::Lookup(Lookup4args { objname: name }), 0)
    }

    /// Adds GETFH.
    pub fn handle(&mut self) -> &mut Self {
        self.add(NfsArgop4::Getfh, 4 + 128)
    }

    /// Adds GETATTR of attributes whose values have at most `max_values` bytes.
    pub fn attributes(&mut self, mask: &'a [u32], max_values: u32) -> &mut Self {
        let attr_request = mask.into();
        let operation = NfsArgop4::Getattr(Getattr4args { attr_request });
        let words = u32::try_from(mask.len()).unwrap_or(u32::MAX);
        let max = words.saturating_mul(4).saturating_add(8);
        self.add(operation, max.saturating_add(max_values))
    }

    /// Adds READ. Over RDMA, the data of the first eight READs of a COMPOUND have Write chunks;
    /// those of others are returned with the rest of the reply.
    ///
    /// - Put at most one READ with data in a COMPOUND for Linux's server: 6.12 returns wrong data
    ///   for a second one.
    /// - Put no READ of 0 bytes before another READ. By RFC 8267, section 6.4.1, each READ has its
    ///   chunk, but Linux's server counts only READs that return data. (A READ at the end of the
    ///   file, which returns none, is decoded correctly from either kind of server.)
    pub fn read(&mut self, stateid: Stateid4, offset: u64, count: u32) -> &mut Self {
        let args = Read4args {
            stateid,
            offset,
            count,
        };
        if count > 0 {
            self.items.push(count);
        }
        self.add(NfsArgop4::Read(args), 8)
    }

    /// Adds READLINK of a path of at most `max` bytes. The path has no Write chunk, because Linux's
    /// server writes it there with an error: it begins with the length of the path, 4 bytes too
    /// early. A long path is returned in the Reply chunk.
    pub fn read_link(&mut self, max: u32) -> &mut Self {
        let max = max.checked_next_multiple_of(4).unwrap_or(u32::MAX);
        self.add(NfsArgop4::Readlink, max.saturating_add(4))
    }

    /// Adds WRITE. Over RDMA, only data in memory of the transport (`Channel::item_buf`) have a
    /// Read chunk.
    ///
    /// Put at most one WRITE in a COMPOUND for Linux's server: 6.12 writes wrong data for a second
    /// one.
    pub fn write(
        &mut self,
        stateid: Stateid4,
        offset: u64,
        stable: StableHow4,
        data: impl Into<Item<'a>>,
    ) -> &mut Self {
        let args = Write4args {
            stateid,
            offset,
            stable,
            data: data.into(),
        };
        self.add(NfsArgop4::Write(args), 16)
    }

    /// Sets the arguments of SEQUENCE, except `sa_cachethis`: the server is asked to cache the
    /// reply of a COMPOUND that is not idempotent, since a retransmission could not get the results
    /// of a lost reply otherwise. `max_cached` is the session's limit for cached replies.
    pub(super) fn sequence(&mut self, args: Sequence4args, max_cached: u32) {
        let sa_cachethis = !self.is_idempotent && self.fits_cache(max_cached);
        if let Some(first) = self.operations.first_mut() {
            *first = NfsArgop4::Sequence(Sequence4args {
                sa_cachethis,
                ..args
            });
        }
    }

    /// Returns false if content may make the reply too large for the cache: the server would fail
    /// that operation with NFS4ERR_REP_TOO_BIG_TO_CACHE (RFC 8881, section 2.10.6.4). Results
    /// without content are small, though their bounds may be large.
    fn fits_cache(&self, max_cached: u32) -> bool {
        let data: u64 = self.items.iter().copied().map(padded).sum();
        !self.returns_content || RPC_HEADER + self.inline + data <= max_cached.into()
    }

    pub(super) fn operations(&self) -> &[NfsArgop4<'a>] {
        &self.operations
    }

    pub(super) fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    pub(super) fn reply_limits(&self) -> ReplyLimits {
        let count = self.items.len().min(MAX_REPLY_ITEMS);
        let (items, without_chunk) = self.items.split_at(count);
        let without_chunk: u64 = without_chunk.iter().copied().map(padded).sum();
        let limits = ReplyLimits::new(Some(self.inline + without_chunk));
        items.iter().fold(limits, |limits, max| limits.item(*max))
    }

    /// Checks that the results are those of the operations: of all of them, or, after an error, of
    /// the first ones up to and including the one that failed.
    pub(super) fn check(&self, reply: owned::Compound4res) -> Result<Nfs4Outcome, Nfs4Error> {
        let owned::Compound4res {
            status, resarray, ..
        } = reply;
        let last = resarray.last().map(owned::NfsResop4::resop);
        let operation = last.unwrap_or(NfsOpnum4::Sequence);
        let is_complete = resarray.len() == self.operations.len();
        let end = match status {
            _ if !self.matches(status, &resarray) => None,
            Nfsstat4::Ok => is_complete.then_some(Ok(())),
            status => Some(Err(Nfs4Error::Status { operation, status })),
        };
        let end = end.ok_or(Nfs4Error::fault(operation, Nfs4Fault::Results))?;
        let mut results = resarray.into_iter();
        results.next();
        let results = Nfs4Results(results);
        Ok(Nfs4Outcome { results, end })
    }

    /// Returns true if each result has the number of its operation, and only the last one may have
    /// failed, with the status of the COMPOUND (RFC 8881, section 16.2.3).
    fn matches(&self, status: Nfsstat4, results: &[owned::NfsResop4]) -> bool {
        let Some((last, earlier)) = results.split_last() else {
            return status != Nfsstat4::Ok;
        };
        let mut operations = self.operations.iter().map(NfsArgop4::argop);
        let are_done = earlier.iter().all(|result| {
            operations.next() == Some(result.resop()) && has_status(result, Nfsstat4::Ok)
        });
        // OP_ILLEGAL replaces an operation that the server does not know.
        let is_illegal = last.resop() == NfsOpnum4::Illegal && status == Nfsstat4::OpIllegal;
        let is_next = operations
            .next()
            .is_some_and(|next| next == last.resop() || is_illegal);
        are_done && is_next && has_status(last, status)
    }
}

/// Returns the bytes of opaque data with their padding.
fn padded(len: u32) -> u64 {
    u64::from(len).next_multiple_of(4)
}

/// Returns true if a result has this status, which follows its number in each operation.
fn has_status(result: &owned::NfsResop4, status: Nfsstat4) -> bool {
    // The beginning of a result: an error, because the rest does not fit, is expected.
    let mut head = [0; 64];
    let mut encoder = Encoder::new(&mut head);
    let _ = result.encode(&mut encoder);
    let is_encoded = encoder.position() >= 8;
    is_encoded && head[4..8] == status.value().to_be_bytes()
}

/// The content of a reply to a COMPOUND.
#[derive(Debug)]
pub(super) struct Nfs4Outcome {
    /// The results of the operations after SEQUENCE, including that of the one that failed.
    pub(super) results: Nfs4Results,
    /// The error of the operation that failed, if any.
    pub(super) end: Result<(), Nfs4Error>,
}

impl Default for Nfs4Compound<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns true if an operation can be executed twice without harm, in a COMPOUND that returns
/// nothing that it changes.
fn is_idempotent_alone(operation: &NfsArgop4<'_>) -> bool {
    use NfsArgop4 as Op;
    matches!(
        operation,
        Op::Access(_)
            | Op::Commit(_)
            | Op::Getattr(_)
            | Op::Getfh
            | Op::Lookup(_)
            | Op::Lookupp
            | Op::Nverify(_)
            | Op::Putfh(_)
            | Op::Putpubfh
            | Op::Putrootfh
            | Op::Read(_)
            | Op::Readdir(_)
            | Op::Readlink
            | Op::Restorefh
            | Op::Savefh
            | Op::Secinfo(_)
            | Op::SecinfoNoName(_)
            | Op::TestStateid(_)
            | Op::Verify(_)
            | Op::Write(_)
    )
}

/// The results of a COMPOUND without that of SEQUENCE: an iterator over `owned::NfsResop4` in the
/// order of the operations. [`Nfs4Session::compound`](super::Nfs4Session::compound) returns the
/// results if all operations have succeeded.
#[derive(Clone, Debug)]
pub struct Nfs4Results(IntoIter<owned::NfsResop4>);

impl Iterator for Nfs4Results {
    type Item = owned::NfsResop4;

    fn next(&mut self) -> Option<owned::NfsResop4> {
        self.0.next()
    }
}

/// Takes the next result that matches the pattern, and skips others.
macro_rules! take {
    ($results:expr, $operation:ident, $pattern:pat => $value:expr) => {
        $results
            .find_map(|result| match result {
                $pattern => Some($value),
                _ => None,
            })
            .ok_or_else(|| {
                $crate::nfs4_client::error::Nfs4Error::fault(
                    $crate::nfs4::NfsOpnum4::$operation,
                    $crate::nfs4_client::error::Nfs4Fault::Results,
                )
            })
    };
}
pub(super) use take;

#[cfg(test)]
mod tests {
    use super::*;

    const ANONYMOUS: Stateid4 = Stateid4 {
        seqid: 0,
        other: [0; 12],
    };

    #[derive(Clone, Copy)]
    enum Part {
        Attributes,
        Read,
        ReadDir,
        Write,
        Remove,
    }

    /// The limit of the session for cached replies.
    const MAX_CACHED: u32 = 2048;

    /// Returns whether a COMPOUND may be executed twice, and whether its reply is cached. Its READs
    /// and READDIRs return at most `max` bytes.
    fn classes(parts: &[Part], max: u32) -> (bool, bool) {
        let mut compound = Nfs4Compound::new();
        for part in parts {
            match part {
                Part::Attributes => {
                    let attr_request = (&[0u32][..]).into();
                    compound.add(NfsArgop4::Getattr(Getattr4args { attr_request }), 8)
                }
                Part::Read => compound.read(ANONYMOUS, 0, max),
                Part::ReadDir => {
                    let args = crate::nfs4::Readdir4args {
                        cookie: 0,
                        cookieverf: [0; 8],
                        dircount: max,
                        maxcount: max,
                        attr_request: (&[0u32][..]).into(),
                    };
                    compound.add(NfsArgop4::Readdir(args), max)
                }
                Part::Write => compound.write(ANONYMOUS, 0, StableHow4::FileSync4, b"data"),
                Part::Remove => {
                    let args = crate::nfs4::Remove4args { target: &[] };
                    compound.add(NfsArgop4::Remove(args), 20)
                }
            };
        }
        let args = Sequence4args {
            sa_sessionid: [0; 16],
            sa_sequenceid: 1,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        };
        compound.sequence(args, MAX_CACHED);
        let is_cached = match compound.operations() {
            [NfsArgop4::Sequence(args), ..] => args.sa_cachethis,
            _ => panic!("SEQUENCE is missing"),
        };
        (compound.is_idempotent(), is_cached)
    }

    #[test]
    fn a_write_after_what_it_changes_is_not_repeated() {
        use Part::{Attributes, Read, ReadDir, Remove, Write};
        assert_eq!(classes(&[Attributes, Read], 100), (true, false));
        assert_eq!(classes(&[Write, Attributes], 100), (true, false));
        assert_eq!(classes(&[Attributes, Write], 100), (false, true));
        assert_eq!(classes(&[ReadDir, Write], 100), (false, true));
        assert_eq!(classes(&[Remove], 100), (false, true));
    }

    /// RFC 8881, section 2.10.6.4: the server fails the READ if its data exceed the cache. Any
    /// position of the READ makes the reply as large.
    #[test]
    fn a_reply_that_may_exceed_the_cache_is_not_cached() {
        use Part::{Attributes, Read, ReadDir, Remove, Write};
        for parts in [
            &[Attributes, Read, Write][..],
            &[Attributes, Write, Read],
            &[Remove, Read],
            &[Read, Remove],
            &[Remove, ReadDir],
            &[Attributes, Write, Read, Write],
        ] {
            assert_eq!(classes(parts, 100), (false, true));
            assert_eq!(classes(parts, MAX_CACHED), (false, false));
        }
    }

    /// Items beyond the maximum of `ReplyLimits` are returned with the rest of the reply.
    #[test]
    fn a_ninth_read_has_room_without_a_chunk() {
        let limits = |reads: u32| {
            let mut compound = Nfs4Compound::new();
            for _ in 0..reads {
                compound.read(ANONYMOUS, 0, 4097);
            }
            let limits = compound.reply_limits();
            (limits.inline_max().unwrap(), limits.items().len())
        };
        let (eight, ten) = (limits(8), limits(10));
        assert_eq!((eight.1, ten.1), (8, 8));
        // Number, status, end of file, and length of each; and the padded data.
        assert_eq!(ten.0 - eight.0, 2 * (16 + 4100));
    }

    use crate::nfs4::{Illegal4res, Lookup4res, Putfh4res};
    use owned::NfsResop4 as Res;

    fn sequence_result() -> Res {
        Res::Sequence(owned::Sequence4res::Ok(Box::default()))
    }

    fn put(status: Nfsstat4) -> Res {
        Res::Putfh(Putfh4res { status })
    }

    fn look(status: Nfsstat4) -> Res {
        Res::Lookup(Lookup4res { status })
    }

    fn illegal() -> Res {
        let status = Nfsstat4::OpIllegal;
        Res::Illegal(Illegal4res { status })
    }

    /// Checks a reply to SEQUENCE, PUTFH and LOOKUP. Returns the status of the failed operation, or
    /// `None` if the reply is a fault.
    fn checked(status: Nfsstat4, resarray: Vec<Res>) -> Option<(NfsOpnum4, Nfsstat4)> {
        let mut compound = Nfs4Compound::new();
        compound.put_handle(NfsFh4::default()).lookup(b"name");
        let tag = Vec::new();
        let reply = owned::Compound4res {
            status,
            tag,
            resarray,
        };
        match compound.check(reply) {
            Ok(Nfs4Outcome { end: Ok(()), .. }) => Some((NfsOpnum4::Lookup, Nfsstat4::Ok)),
            Ok(Nfs4Outcome {
                end: Err(Nfs4Error::Status { operation, status }),
                ..
            }) => Some((operation, status)),
            Err(Nfs4Error::Protocol { fault, .. }) => {
                assert_eq!(fault, Nfs4Fault::Results);
                None
            }
            other => panic!("{other:?}"),
        }
    }

    /// RFC 8881, section 16.2.3: the status is that of the last operation that was executed.
    #[test]
    fn statuses_of_results_agree_with_the_status_of_the_compound() {
        use Nfsstat4::{Noent, Ok, Stale};
        let three = |a, b| vec![sequence_result(), put(a), look(b)];
        assert_eq!(checked(Ok, three(Ok, Ok)), Some((NfsOpnum4::Lookup, Ok)));
        let failed = checked(Noent, three(Ok, Noent));
        assert_eq!(failed, Some((NfsOpnum4::Lookup, Noent)));
        let failed = checked(Stale, vec![sequence_result(), put(Stale)]);
        assert_eq!(failed, Some((NfsOpnum4::Putfh, Stale)));
        assert_eq!(checked(Noent, three(Ok, Ok)), None);
        assert_eq!(checked(Ok, three(Ok, Noent)), None);
        assert_eq!(checked(Noent, three(Ok, Stale)), None);
        assert_eq!(checked(Noent, three(Stale, Noent)), None);
        assert_eq!(checked(Ok, vec![sequence_result(), put(Ok)]), None);
    }

    /// RFC 8881, section 16.2.3: OP_ILLEGAL takes the place of the operation, with its status.
    #[test]
    fn an_illegal_result_ends_a_matching_prefix() {
        use Nfsstat4::{Ok, OpIllegal};
        let expected = Some((NfsOpnum4::Illegal, OpIllegal));
        let results = vec![sequence_result(), illegal()];
        assert_eq!(checked(OpIllegal, results), expected);
        let results = vec![sequence_result(), put(Ok), illegal()];
        assert_eq!(checked(OpIllegal, results), expected);
        // Results of other operations, and more results than operations.
        let results = vec![sequence_result(), look(Ok), illegal()];
        assert_eq!(checked(OpIllegal, results), None);
        let results = vec![sequence_result(), put(Ok), look(Ok), illegal()];
        assert_eq!(checked(OpIllegal, results), None);
    }

    /// A result with data beyond the bytes that `has_status` encodes.
    #[test]
    fn the_status_of_a_long_result_is_found() {
        let data = vec![7; 1 << 16].into();
        let read = Res::Read(owned::Read4res::Ok(Box::new(owned::Read4resok {
            eof: true,
            data,
        })));
        assert!(has_status(&read, Nfsstat4::Ok));
        assert!(!has_status(&read, Nfsstat4::Stale));
    }
}

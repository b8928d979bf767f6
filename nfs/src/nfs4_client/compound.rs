//! COMPOUND: its operations, and the size limits of their results.
//!
//! The first operation is SEQUENCE, whose arguments `session` sets. Each added operation must state
//! the maximum bytes of its results: over RDMA, a longer reply fails. `classify` decides whether
//! the server caches the reply, and whether `session` may repeat the COMPOUND after
//! NFS4ERR_RETRY_UNCACHED_REP. An operation that is not harmless twice must not be in
//! `is_idempotent`.

use std::vec::IntoIter;

use oncrpc::ReplyLimits;
use oncrpc::xdr::Item;

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
/// let mut two_parts = Nfs4Compound::new();
/// two_parts.put_handle(handle).read(anonymous, 0, 4096).read(anonymous, 1 << 20, 4096);
/// two_parts.add(NfsArgop4::Getfh, 140);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Nfs4Compound<'a> {
    /// SEQUENCE, followed by the operations.
    operations: Vec<NfsArgop4<'a>>,
    /// The maximum bytes of the results without items.
    inline: u64,
    items: ReplyLimitItems,
    /// The COMPOUND may be executed twice.
    is_idempotent: bool,
    /// The server is asked to cache the reply.
    is_cached: bool,
    /// The results of operations before a WRITE, which a second execution would change.
    before_write: Observed,
}

/// What the operations of a COMPOUND so far have returned of a file's content or attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Observed {
    Nothing,
    /// By GETATTR, VERIFY or NVERIFY.
    Attributes,
    /// By READ, or by READDIR, which also returns attributes: the reply may be too large to be
    /// cached.
    Data,
}

/// The maximum bytes of each item of the results.
#[derive(Clone, Debug, Default)]
struct ReplyLimitItems(Vec<u32>);

/// The bytes of a reply before its results (status, tag, count), and those of the SEQUENCE result.
const HEAD: u64 = 12 + 44;

/// The bytes of an operation's number and status.
const STATUS: u64 = 8;

impl<'a> Nfs4Compound<'a> {
    /// Creates a COMPOUND with no operation except SEQUENCE.
    #[must_use]
    pub fn new() -> Self {
        Self::after(NfsArgop4::Sequence(Sequence4args {
            sa_sessionid: [0; 16],
            sa_sequenceid: 0,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        }))
    }

    fn after(first: NfsArgop4<'a>) -> Self {
        Self {
            operations: vec![first],
            inline: HEAD,
            items: ReplyLimitItems::default(),
            is_idempotent: true,
            is_cached: false,
            before_write: Observed::Nothing,
        }
    }

    /// Adds an operation. Its results have at most `max_results` bytes after the number and status.
    pub fn add(&mut self, operation: NfsArgop4<'a>, max_results: u32) -> &mut Self {
        self.classify(&operation);
        self.operations.push(operation);
        self.inline += STATUS + u64::from(max_results);
        self
    }

    /// Notes whether the COMPOUND may be executed twice. A WRITE may, unless an operation before it
    /// has returned what it changes.
    fn classify(&mut self, operation: &NfsArgop4<'_>) {
        match operation {
            NfsArgop4::Getattr(_) | NfsArgop4::Verify(_) | NfsArgop4::Nverify(_)
                if self.before_write == Observed::Nothing =>
            {
                self.before_write = Observed::Attributes;
            }
            NfsArgop4::Read(_) | NfsArgop4::Readdir(_) => self.before_write = Observed::Data,
            NfsArgop4::Write(_) if self.before_write != Observed::Nothing => {
                self.is_idempotent = false;
                self.is_cached |= self.before_write == Observed::Attributes;
            }
            _ if is_idempotent(operation) => {}
            _ => (self.is_idempotent, self.is_cached) = (false, true),
        }
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

    /// Adds READ. Bytes beyond eight READs have no chunk.
    ///
    /// Do not put a READ of 0 bytes before others: the first READ uses the first chunk (RFC 8267,
    /// section 6.4.1), but Linux's server counts only READs with data. A READ at the end of the
    /// file is understood from either. Linux 6.12 returns wrong data for a second READ with data.
    pub fn read(&mut self, stateid: Stateid4, offset: u64, count: u32) -> &mut Self {
        let args = Read4args {
            stateid,
            offset,
            count,
        };
        if count > 0 {
            self.items.0.push(count);
        }
        self.add(NfsArgop4::Read(args), 8)
    }

    /// Adds READLINK of a path of at most `max` bytes. It has no Write chunk of its own: Linux's
    /// server writes the path there from its count on, 4 bytes too early, since its own client
    /// never offers one. A long path comes by the Reply chunk.
    pub fn read_link(&mut self, max: u32) -> &mut Self {
        let max = max.checked_next_multiple_of(4).unwrap_or(u32::MAX);
        self.add(NfsArgop4::Readlink, max.saturating_add(4))
    }

    /// Adds WRITE. Only an item in memory of the transport (`Channel::item_buf`) has a chunk.
    ///
    /// Put one WRITE in a COMPOUND: Linux's server, up to 6.12 at least, writes wrong data for a
    /// second one.
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

    /// Sets SEQUENCE. Asks the server to cache the reply if an operation must not be executed
    /// twice: without a cached reply, the client cannot recover the results of a lost reply.
    pub(super) fn sequence(&mut self, args: Sequence4args) {
        let sa_cachethis = self.is_cached;
        if let Some(first) = self.operations.first_mut() {
            *first = NfsArgop4::Sequence(Sequence4args {
                sa_cachethis,
                ..args
            });
        }
    }

    pub(super) fn operations(&self) -> &[NfsArgop4<'a>] {
        &self.operations
    }

    pub(super) fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    pub(super) fn reply_limits(&self) -> ReplyLimits {
        let limits = ReplyLimits::new(Some(self.inline));
        self.items
            .0
            .iter()
            .fold(limits, |limits, max| limits.item(*max))
    }

    /// Checks that the results match the operations after SEQUENCE: all of them, or those up to the
    /// one that failed.
    pub(super) fn check(&self, reply: owned::Compound4res) -> Result<Nfs4Outcome, Nfs4Error> {
        let owned::Compound4res {
            status, resarray, ..
        } = reply;
        let wanted = self.operations.iter().map(NfsArgop4::argop);
        let last = resarray.last().map(owned::NfsResop4::resop);
        let found = resarray.iter().map(owned::NfsResop4::resop);
        let fits = resarray.len() <= self.operations.len() && found.eq(wanted.take(resarray.len()));
        let operation = last.unwrap_or(NfsOpnum4::Sequence);
        // OP_ILLEGAL replaces an operation that the server does not know.
        let is_illegal = operation == NfsOpnum4::Illegal && status == Nfsstat4::OpIllegal;
        let end = match status {
            Nfsstat4::Ok if fits && resarray.len() == self.operations.len() => Ok(()),
            Nfsstat4::Ok => return Err(Nfs4Error::fault(operation, Nfs4Fault::Results)),
            status if fits || is_illegal => Err(Nfs4Error::Status { operation, status }),
            _ => return Err(Nfs4Error::fault(operation, Nfs4Fault::Results)),
        };
        let mut results = resarray.into_iter();
        results.next();
        let results = Nfs4Results(results);
        Ok(Nfs4Outcome { results, end })
    }
}

/// The outcome of a COMPOUND that the server has begun to execute.
#[derive(Debug)]
pub(super) struct Nfs4Outcome {
    /// The results of the operations, up to the one that failed.
    pub(super) results: Nfs4Results,
    /// The error of the last operation, if it failed.
    pub(super) end: Result<(), Nfs4Error>,
}

impl Default for Nfs4Compound<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns true if an operation can be executed twice without harm.
fn is_idempotent(operation: &NfsArgop4<'_>) -> bool {
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

/// The results of a COMPOUND whose operations all succeeded, without those of SEQUENCE: an iterator
/// over `owned::NfsResop4` in the order of the operations.
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

    /// Returns whether a COMPOUND may be executed twice, and whether its reply is cached.
    fn classes(parts: &[Part]) -> (bool, bool) {
        let mut compound = Nfs4Compound::new();
        for part in parts {
            match part {
                Part::Attributes => {
                    let attr_request = (&[0u32][..]).into();
                    compound.add(NfsArgop4::Getattr(Getattr4args { attr_request }), 8)
                }
                Part::Read => compound.read(ANONYMOUS, 0, 100),
                Part::ReadDir => {
                    let args = crate::nfs4::Readdir4args {
                        cookie: 0,
                        cookieverf: [0; 8],
                        dircount: 100,
                        maxcount: 100,
                        attr_request: (&[0u32][..]).into(),
                    };
                    compound.add(NfsArgop4::Readdir(args), 100)
                }
                Part::Write => compound.write(ANONYMOUS, 0, StableHow4::FileSync4, b"data"),
                Part::Remove => {
                    let args = crate::nfs4::Remove4args { target: &[] };
                    compound.add(NfsArgop4::Remove(args), 20)
                }
            };
        }
        (compound.is_idempotent, compound.is_cached)
    }

    #[test]
    fn a_write_after_what_it_changes_is_not_repeated() {
        use Part::{Attributes, Read, ReadDir, Remove, Write};
        assert_eq!(classes(&[Attributes, Read]), (true, false));
        assert_eq!(classes(&[Write, Attributes]), (true, false));
        assert_eq!(classes(&[Attributes, Write]), (false, true));
        // The data may be too large for a cache.
        assert_eq!(classes(&[Attributes, Read, Write]), (false, false));
        assert_eq!(classes(&[ReadDir, Write]), (false, false));
        assert_eq!(classes(&[Remove]), (false, true));
    }
}

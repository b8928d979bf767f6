//! The delegations of the clients, and the files of write delegations as their holder has them (RFC
//! 8881, section 10.4.3).
//!
//! `callbacks` has one `Delegations` for each client ID, under its lock. `writers` contains the
//! write delegations of `held`. `executed` must know every operation that may change the current
//! filehandle (`keeps_handle`), or CB_GETATTR reports the size of another file.

use std::collections::HashMap;

use super::attributes::{Nfs4Attributes, change_and_size, size_of};
use crate::nfs4::owned::{
    CbGetattr4resok, Getfh4res, NfsFh4 as Handle4, NfsResop4 as Result4, Open4res,
};
use crate::nfs4::{
    CbGetattr4args, Createhow4, NfsArgop4 as Op, Nfsstat4, Open4args, Openflag4, Stateid4,
    Write4res,
};

/// The part of a stateid that identifies a delegation.
type Other = [u8; 12];

/// All delegations that the clients hold.
#[derive(Default)]
pub(super) struct Delegations {
    held: HashMap<Other, Delegated>,
    /// The write delegations by the handles of their files.
    writers: HashMap<Vec<u8>, Other>,
}

pub(super) struct Delegated {
    pub(super) handle: Handle4,
    pub(super) is_recalled: bool,
    /// The file of a write delegation.
    file: Option<HeldFile>,
}

/// A file as the holder of its write delegation has it.
#[derive(Clone, Copy)]
struct HeldFile {
    /// The change attribute when the delegation was granted: "c".
    change: Option<u64>,
    size: Option<u64>,
    /// Whether the holder has data that the server does not have.
    is_modified: bool,
}

impl Delegations {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn get_mut(&mut self, stateid: &Stateid4) -> Option<&mut Delegated> {
        self.held.get_mut(&stateid.other)
    }

    /// Returns the number of delegations of these kinds.
    pub(super) fn count(&self, reads: bool, writes: bool) -> usize {
        let wanted = |held: &&Delegated| match held.file {
            Some(_) => writes,
            None => reads,
        };
        self.held.values().filter(wanted).count()
    }

    /// Adds a delegation, with the attributes of its file after the OPEN if it is a write
    /// delegation.
    pub(super) fn add(
        &mut self,
        stateid: &Stateid4,
        handle: Handle4,
        written: Option<Nfs4Attributes>,
    ) {
        // An OPEN may return a delegation that the client has already.
        let known = self.get_mut(stateid);
        let is_recalled = known.as_ref().is_some_and(|held| held.is_recalled);
        let known_file = known.and_then(|held| held.file);
        let file = written.map(|found| {
            known_file.unwrap_or(HeldFile {
                change: found.change,
                size: found.size,
                is_modified: false,
            })
        });
        if file.is_some() {
            let key = handle.as_bytes().to_vec();
            self.writers.insert(key, stateid.other);
        }
        let delegated = Delegated {
            handle,
            is_recalled,
            file,
        };
        self.held.insert(stateid.other, delegated);
    }

    pub(super) fn remove(&mut self, stateid: &Stateid4) {
        if let Some(held) = self.held.remove(&stateid.other) {
            let key = held.handle.as_bytes();
            if self.writers.get(key) == Some(&stateid.other) {
                self.writers.remove(key);
            }
        }
    }

    /// Records what the holder of a write delegation has changed, or that it has flushed this.
    /// Returns false if no such delegation is held.
    pub(super) fn record(&mut self, stateid: &Stateid4, size: Option<u64>) -> bool {
        let held = self.get_mut(stateid);
        let Some(file) = held.and_then(|held| held.file.as_mut()) else {
            return false;
        };
        file.is_modified = size.is_some();
        file.size = size.or(file.size);
        true
    }

    /// Executes CB_GETATTR (RFC 8881, section 20.1.3) if the client holds a write delegation of
    /// the file.
    pub(super) fn attributes(&self, args: &CbGetattr4args<'_>) -> Option<CbGetattr4resok> {
        let other = self.writers.get(args.fh.as_bytes())?;
        let file = self.held.get(other)?.file.as_ref()?;
        // "The value of d may always be c + 1."
        let change = file.change.map(|c| c.wrapping_add(file.is_modified.into()));
        let requested = args.attr_request.iter().next().unwrap_or_default();
        let obj_attributes = change_and_size(requested, change, file.size);
        Some(CbGetattr4resok { obj_attributes })
    }

    /// Follows the sizes of files with write delegations through the executed operations of a
    /// COMPOUND.
    pub(super) fn executed(&mut self, operations: &[Op<'_>], results: &[Result4]) {
        if self.writers.is_empty() {
            return;
        }
        // The handle of the current file, and what is known of its size without it.
        let (mut current, mut sizes) = (None, Vec::new());
        for (operation, result) in operations.iter().zip(results) {
            if !keeps_handle(operation) {
                (current, sizes) = (None, Vec::new());
            }
            match (operation, result) {
                (Op::Putfh(args), _) => current = Some(args.object.as_bytes()),
                (Op::Getfh, Result4::Getfh(found)) => {
                    if let Getfh4res::Ok(found) = &**found {
                        current = Some(found.object.as_bytes());
                    }
                }
                _ => sizes.extend(NewSize::of(operation, result)),
            }
            if let Some(handle) = current {
                sizes.drain(..).for_each(|size| self.resize(handle, size));
            }
        }
    }

    fn resize(&mut self, handle: &[u8], new: NewSize) {
        let other = self.writers.get(handle);
        let held = other.and_then(|other| self.held.get_mut(other));
        if let Some(file) = held.and_then(|held| held.file.as_mut()) {
            file.size = file.size.map(|size| match new {
                NewSize::Exactly(new) => new,
                NewSize::AtLeast(end) => size.max(end),
            });
        }
    }
}

/// The size of a file after an operation.
#[derive(Clone, Copy)]
enum NewSize {
    Exactly(u64),
    AtLeast(u64),
}

impl NewSize {
    /// Returns the size of the current file, if the operation may have changed it.
    fn of(operation: &Op<'_>, result: &Result4) -> Option<Self> {
        match (operation, result) {
            (Op::Open(args), Result4::Open(Open4res::Ok(_))) => {
                truncates(args).then_some(Self::Exactly(0))
            }
            (Op::Write(args), Result4::Write(Write4res::Ok(ok))) => {
                Some(Self::AtLeast(args.offset.saturating_add(ok.count.into())))
            }
            (Op::Setattr(args), Result4::Setattr(set)) if set.status == Nfsstat4::Ok => {
                size_of(&args.obj_attributes).map(Self::Exactly)
            }
            _ => None,
        }
    }
}

/// Returns true if a successful OPEN leaves its file with 0 bytes.
fn truncates(args: &Open4args<'_>) -> bool {
    match &args.openhow {
        Openflag4::Create(Createhow4::Unchecked4(attributes)) => size_of(attributes) == Some(0),
        _ => false,
    }
}

/// Returns true if an operation leaves the current filehandle unchanged.
fn keeps_handle(operation: &Op<'_>) -> bool {
    matches!(
        operation,
        Op::Access(_)
            | Op::Close(_)
            | Op::Commit(_)
            | Op::Getattr(_)
            | Op::Getfh
            | Op::Nverify(_)
            | Op::Read(_)
            | Op::Savefh
            | Op::Setattr(_)
            | Op::Verify(_)
            | Op::Write(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recalled_delegation_that_is_returned_again_stays_recalled() {
        let (mut delegations, other) = (Delegations::default(), [1; 12]);
        let stateid = Stateid4 { seqid: 1, other };
        let handle = Handle4::new(b"file".to_vec()).unwrap();
        delegations.add(&stateid, handle.clone(), None);
        delegations.get_mut(&stateid).unwrap().is_recalled = true;
        delegations.add(&stateid, handle, None);
        assert!(delegations.get_mut(&stateid).unwrap().is_recalled);
    }
}

//! The files of the server, with their opens and delegations.

use rpcrdma_nfs::nfs4::owned::{
    Fattr4, Getattr4res, Getattr4resok, Getfh4res, Getfh4resok, NfsFh4, NfsResop4 as Res, Nfsace4,
    Open4res, Open4resok, OpenDelegation4, OpenReadDelegation4, OpenWriteDelegation4, Read4res,
    Read4resok, Readlink4res, Readlink4resok, Setattr4res,
};
use rpcrdma_nfs::nfs4::{
    self, ChangeInfo4, Close4res, Createhow4, Delegreturn4res, FATTR4_CHANGE, FATTR4_SIZE,
    FATTR4_TYPE, Lookup4res, NfsArgop4 as Op, NfsSpaceLimit4, Nfsstat4 as Status,
    OPEN4_SHARE_ACCESS_WANT_DELEG_MASK, OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG,
    OPEN4_SHARE_ACCESS_WRITE, OpenClaim4, Openflag4, Putfh4res, Putrootfh4res, ReclaimComplete4res,
    Remove4res, Remove4resok, Sequence4args, Sessionid4, StableHow4, Stateid4, Write4res,
    Write4resok,
};

use super::{OpenOwner, State};

const ROOT: &[u8] = b"root";

const CHANGE: ChangeInfo4 = ChangeInfo4 {
    atomic: true,
    before: 1,
    after: 2,
};

impl State {
    pub(super) fn change(&self, name: &[u8]) -> u64 {
        100 + self.changes.get(name).copied().unwrap_or(0)
    }

    pub(super) fn operation(
        &mut self,
        sequence: &Sequence4args,
        current: &mut Vec<u8>,
        operation: &Op<'_>,
    ) -> (Status, Res) {
        let done = (Status::Ok, Status::Ok);
        match operation {
            Op::ReclaimComplete(_) => {
                let result = ReclaimComplete4res { rcr_status: done.0 };
                (done.0, Res::ReclaimComplete(result))
            }
            Op::Putrootfh => {
                *current = ROOT.to_vec();
                let result = Putrootfh4res { status: done.0 };
                (done.0, Res::Putrootfh(result))
            }
            Op::Putfh(args) => {
                *current = args.object.as_bytes().to_vec();
                let is_known = current == ROOT || self.files.contains_key(current);
                let status = if is_known { Status::Ok } else { Status::Stale };
                (status, Res::Putfh(Putfh4res { status }))
            }
            Op::Lookup(args) => {
                let status = match self.files.contains_key(args.objname) {
                    true => Status::Ok,
                    false => Status::Noent,
                };
                *current = args.objname.to_vec();
                (status, Res::Lookup(Lookup4res { status }))
            }
            Op::Getfh => {
                let object = NfsFh4::new(current.clone()).unwrap();
                let result = Getfh4res::Ok(Getfh4resok { object });
                (done.0, Res::Getfh(Box::new(result)))
            }
            Op::Getattr(_) => {
                let size = self.files.get(current).map_or(0, Vec::len) as u64;
                let mut attr_vals = 1_u32.to_be_bytes().to_vec();
                attr_vals.extend(self.change(current).to_be_bytes());
                attr_vals.extend(size.to_be_bytes());
                let obj_attributes = Fattr4 {
                    attrmask: vec![1 << FATTR4_TYPE | 1 << FATTR4_CHANGE | 1 << FATTR4_SIZE],
                    attr_vals,
                };
                let ok = Box::new(Getattr4resok { obj_attributes });
                (done.0, Res::Getattr(Getattr4res::Ok(ok)))
            }
            Op::Open(args) => self.open(sequence, current, args),
            Op::Close(args) => {
                let closed = args.open_stateid;
                let open = self.opens.get(&closed.other);
                if open.is_some_and(|(_, name)| name == current) {
                    self.opens.remove(&closed.other);
                    return (done.0, Res::Close(Close4res::Ok(closed)));
                }
                let status = Status::BadStateid;
                (status, Res::Close(Close4res::Default(status)))
            }
            Op::Read(args) => {
                let file = self.files.get(current).map_or(&[][..], Vec::as_slice);
                let rest = file
                    .get(usize::try_from(args.offset).unwrap()..)
                    .unwrap_or_default();
                let part = rest.get(..args.count as usize).unwrap_or(rest);
                let ok = Read4resok {
                    eof: part.len() == rest.len(),
                    data: part.to_vec().into(),
                };
                (done.0, Res::Read(Read4res::Ok(Box::new(ok))))
            }
            Op::Setattr(args) => {
                *self.changes.entry(current.clone()).or_default() += 1;
                let (size, _) = args.obj_attributes.attr_vals.split_first_chunk().unwrap();
                let size = usize::try_from(u64::from_be_bytes(*size)).unwrap();
                self.files.get_mut(current).unwrap().resize(size, 0);
                let result = Setattr4res {
                    status: done.0,
                    attrsset: vec![1 << FATTR4_SIZE],
                };
                (done.0, Res::Setattr(Box::new(result)))
            }
            Op::Write(args) => {
                *self.changes.entry(current.clone()).or_default() += 1;
                let file = self.files.entry(current.clone()).or_default();
                let start = usize::try_from(args.offset).unwrap();
                let end = start + args.data.len();
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[start..end].copy_from_slice(&args.data);
                let ok = Write4resok {
                    count: u32::try_from(args.data.len()).unwrap(),
                    committed: StableHow4::FileSync4,
                    writeverf: [7; 8],
                };
                (done.0, Res::Write(Write4res::Ok(ok)))
            }
            // The content of a file is the path of a symbolic link, too.
            Op::Readlink => {
                let path = self.files.get(current).cloned().unwrap_or_default();
                let ok = Readlink4resok { link: path.into() };
                let result = Readlink4res::Ok(Box::new(ok));
                (done.0, Res::Readlink(result))
            }
            Op::Remove(args) => {
                self.note(sequence);
                let status = match self.files.remove(args.target) {
                    Some(_) => Status::Ok,
                    None => Status::Noent,
                };
                let cinfo = CHANGE;
                let result = match status {
                    Status::Ok => Remove4res::Ok(Remove4resok { cinfo }),
                    status => Remove4res::Default(status),
                };
                (status, Res::Remove(Box::new(result)))
            }
            Op::Delegreturn(args) => {
                let before = self.delegations.len();
                let returned = args.deleg_stateid;
                self.delegations.retain(|_, held| held.0 != returned);
                let status = match before == self.delegations.len() {
                    true => Status::BadStateid,
                    false => Status::Ok,
                };
                (status, Res::Delegreturn(Delegreturn4res { status }))
            }
            _ => {
                let status = Status::OpIllegal;
                (status, Res::Illegal(nfs4::Illegal4res { status }))
            }
        }
    }

    fn open(
        &mut self,
        sequence: &Sequence4args,
        current: &mut Vec<u8>,
        args: &nfs4::Open4args<'_>,
    ) -> (Status, Res) {
        self.note(sequence);
        let OpenClaim4::Null(name) = &args.claim else {
            let status = Status::Notsupp;
            return (status, Res::Open(Open4res::Default(status)));
        };
        let exists = self.files.contains_key(*name);
        let status = match &args.openhow {
            Openflag4::Create(Createhow4::Guarded4(_)) if exists => Status::Exist,
            Openflag4::Default(_) if !exists => Status::Noent,
            _ if args.share_access & OPEN4_SHARE_ACCESS_WRITE != 0
                && self.delegations.contains_key(*name) =>
            {
                Status::Delay
            }
            _ => Status::Ok,
        };
        if status != Status::Ok {
            return (status, Res::Open(Open4res::Default(status)));
        }
        let file = self.files.entry(name.to_vec()).or_default();
        if let Openflag4::Create(Createhow4::Unchecked4(attributes)) = &args.openhow
            && attributes.attr_vals == [0; 8]
        {
            file.clear();
        }
        *current = name.to_vec();
        let owner = (args.owner.clientid, args.owner.owner.as_bytes().to_vec());
        let stateid = self.opened((owner, name.to_vec()));
        let delegation = self.delegate(sequence.sa_sessionid, name, args.share_access);
        let ok = Open4resok {
            stateid,
            cinfo: CHANGE,
            rflags: 0,
            attrset: vec![],
            delegation,
        };
        (Status::Ok, Res::Open(Open4res::Ok(Box::new(ok))))
    }

    /// Grants a delegation for an OPEN: a read delegation if it does not write, and a write
    /// delegation if it asks for one. A file has one delegation.
    fn delegate(&mut self, session: Sessionid4, name: &[u8], access: u32) -> OpenDelegation4 {
        let wants_write =
            access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK == OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG;
        let writes = access & OPEN4_SHARE_ACCESS_WRITE != 0;
        if writes && !wants_write || self.delegations.contains_key(name) {
            return OpenDelegation4::None;
        }
        let stateid = self.stateid();
        self.delegations.insert(name.to_vec(), (stateid, session));
        let permissions = Nfsace4 {
            r#type: 0,
            flag: 0,
            access_mask: 0,
            who: b"EVERYONE@".to_vec(),
        };
        if writes {
            return OpenDelegation4::Write(Box::new(OpenWriteDelegation4 {
                stateid,
                recall: false,
                space_limit: NfsSpaceLimit4::Size(1 << 20),
                permissions,
            }));
        }
        OpenDelegation4::Read(Box::new(OpenReadDelegation4 {
            stateid,
            recall: false,
            permissions,
        }))
    }

    /// Opens a file. Two opens of a file by one owner are one open (RFC 8881, section 18.16.3).
    fn opened(&mut self, open: (OpenOwner, Vec<u8>)) -> Stateid4 {
        let known = self.opens.iter().find(|(_, known)| **known == open);
        let stateid = match known {
            Some((other, _)) => Stateid4 {
                seqid: 2,
                other: *other,
            },
            None => self.stateid(),
        };
        self.opens.insert(stateid.other, open);
        stateid
    }

    fn stateid(&mut self) -> Stateid4 {
        let mut other = [0; 12];
        other[..8].copy_from_slice(&self.number().to_be_bytes());
        Stateid4 { seqid: 1, other }
    }

    fn note(&mut self, sequence: &Sequence4args) {
        let request = (
            sequence.sa_sessionid,
            sequence.sa_slotid,
            sequence.sa_sequenceid,
        );
        *self.executed.entry(request).or_default() += 1;
    }
}

//! Random operations on a server, compared with a simple model.
//!
//! The seed comes from the system and is printed. `NFS_MODEL_SEED` repeats a run, and
//! `NFS_MODEL_STEPS` sets its length.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use oncrpc::xdr::{Opaque, Text};
use oncrpc::{AuthSys, CallOptions, Channel, loopback};
use rpcrdma_nfs::nfs3::nfs_program::nfs_v3::Client;
use rpcrdma_nfs::nfs3::owned::{self, PostOpFh3};
use rpcrdma_nfs::nfs3::{
    Create3args, Createhow3, Diropargs3, Ftype3, Getattr3args, Link3args, Lookup3args, Mkdir3args,
    NfsFh3, Nfsstat3, Read3args, Readdir3args, Remove3args, Rename3args, Rmdir3args, Sattr3,
    Sattrguard3, SetSize3, Setattr3args, StableHow, Write3args,
};
use rpcrdma_nfs::{FileSystem, router};

use crate::backends::{Expected, Offer, Work, on_memory};

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        value as usize % bound
    }
}

/// An object of the model. Its index in the list is its number.
#[derive(Clone, Debug)]
struct Object {
    handle: Vec<u8>,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    File(Vec<u8>),
    Dir(BTreeMap<String, usize>),
    Gone,
}

struct Model {
    objects: Vec<Object>,
    nfs: Client<Channel>,
    random: Random,
}

/// The highest offset: files have several pages.
const MAX_OFFSET: usize = 300_000;

fn fh(handle: &[u8]) -> NfsFh3<'_> {
    NfsFh3 {
        data: Opaque::new(handle).unwrap(),
    }
}

fn place<'a>(dir: &'a [u8], name: &'a str) -> Diropargs3<'a> {
    Diropargs3 {
        dir: fh(dir),
        name: Text::new(name).unwrap(),
    }
}

/// Asserts that a status is one of the applicable errors, or OK if none applies: RFC 1813, section
/// 2.6, defines no precedence.
fn assert_status(status: Nfsstat3, errors: &[Nfsstat3]) {
    match errors {
        [] => assert_eq!(status, Nfsstat3::Ok),
        errors => assert!(errors.contains(&status), "{status:?} and not {errors:?}"),
    }
}

impl Model {
    /// Returns a random object, sometimes a removed one.
    fn any(&mut self) -> usize {
        for _ in 0..4 {
            let id = self.random.below(self.objects.len());
            if !matches!(self.objects[id].content, Content::Gone) {
                return id;
            }
        }
        self.random.below(self.objects.len())
    }

    /// Returns a random directory, sometimes another object.
    fn dir(&mut self) -> usize {
        for _ in 0..8 {
            let id = self.any();
            if matches!(self.objects[id].content, Content::Dir(_)) {
                return id;
            }
        }
        self.any()
    }

    fn name(&mut self) -> String {
        format!("n{}", self.random.below(12))
    }

    fn handle(&self, id: usize) -> Vec<u8> {
        self.objects[id].handle.clone()
    }

    /// Returns the names of a directory, or the error of a lookup in it.
    fn names(&mut self, id: usize) -> Result<&mut BTreeMap<String, usize>, Nfsstat3> {
        match &mut self.objects[id].content {
            Content::Dir(names) => Ok(names),
            Content::File(_) => Err(Nfsstat3::Notdir),
            Content::Gone => Err(Nfsstat3::Stale),
        }
    }

    fn find(&mut self, dir: usize, name: &str) -> Result<usize, Nfsstat3> {
        self.names(dir)?.get(name).copied().ok_or(Nfsstat3::Noent)
    }

    fn is_dir(&self, id: usize) -> bool {
        matches!(self.objects[id].content, Content::Dir(_))
    }

    fn is_empty(&self, id: usize) -> bool {
        matches!(&self.objects[id].content, Content::Dir(names) if names.is_empty())
    }

    /// Returns true if an object is a directory or inside it.
    fn is_within(&self, id: usize, dir: usize) -> bool {
        id == dir
            || match &self.objects[dir].content {
                Content::Dir(names) => names.values().any(|inner| self.is_within(id, *inner)),
                _ => false,
            }
    }

    /// Returns the number of names of an object.
    fn links(&self, id: usize) -> usize {
        let mut links = 0;
        for object in &self.objects {
            if let Content::Dir(names) = &object.content {
                links += names.values().filter(|named| **named == id).count();
            }
        }
        links
    }

    /// Removes an object that has no name.
    fn release(&mut self, id: usize) {
        if self.links(id) == 0 {
            self.objects[id].content = Content::Gone;
        }
    }

    fn add(&mut self, dir: usize, name: &str, handle: PostOpFh3, content: Content) {
        let PostOpFh3::True(handle) = handle else {
            panic!("no handle");
        };
        let handle = handle.data.into_inner();
        self.objects.push(Object { handle, content });
        let id = self.objects.len() - 1;
        self.names(dir).unwrap().insert(name.to_owned(), id);
    }

    async fn create(&mut self) {
        let (dir, name) = (self.dir(), self.name());
        let handle = self.handle(dir);
        let args = Create3args {
            r#where: place(&handle, &name),
            how: Createhow3::Guarded(Sattr3::UNSET),
        };
        let found = self.find(dir, &name);
        match (self.nfs.create(&args).await.unwrap(), found) {
            (owned::Create3res::Ok(ok), Err(Nfsstat3::Noent)) => {
                self.add(dir, &name, ok.obj, Content::File(Vec::new()));
            }
            (res, Ok(_)) => assert_status(res.status(), &[Nfsstat3::Exist]),
            (res, Err(error)) => assert_status(res.status(), &[error]),
        }
    }

    async fn make_dir(&mut self) {
        let (dir, name) = (self.dir(), self.name());
        let handle = self.handle(dir);
        let args = Mkdir3args {
            r#where: place(&handle, &name),
            attributes: Sattr3::UNSET,
        };
        let found = self.find(dir, &name);
        match (self.nfs.mkdir(&args).await.unwrap(), found) {
            (owned::Mkdir3res::Ok(ok), Err(Nfsstat3::Noent)) => {
                self.add(dir, &name, ok.obj, Content::Dir(BTreeMap::new()));
            }
            (res, Ok(_)) => assert_status(res.status(), &[Nfsstat3::Exist]),
            (res, Err(error)) => assert_status(res.status(), &[error]),
        }
    }

    async fn write(&mut self) {
        let (id, offset) = (self.any(), self.random.below(MAX_OFFSET));
        let (len, byte) = (self.random.below(5000), self.random.below(256) as u8);
        let (handle, data) = (self.handle(id), vec![byte; len]);
        let args = Write3args {
            file: fh(&handle),
            offset: offset as u64,
            count: len as u32,
            stable: StableHow::Unstable,
            data: data.as_slice().into(),
        };
        let res = self.nfs.write(&args).await.unwrap();
        match &mut self.objects[id].content {
            Content::File(bytes) => {
                assert_status(res.status(), &[]);
                if len > 0 && bytes.len() < offset + len {
                    bytes.resize(offset + len, 0);
                }
                if len > 0 {
                    bytes[offset..offset + len].copy_from_slice(&data);
                }
            }
            Content::Dir(_) => assert_status(res.status(), &[Nfsstat3::Inval]),
            Content::Gone => assert_status(res.status(), &[Nfsstat3::Stale]),
        }
    }

    async fn set_size(&mut self) {
        let (id, size) = (self.any(), self.random.below(MAX_OFFSET));
        let handle = self.handle(id);
        let args = Setattr3args {
            object: fh(&handle),
            new_attributes: Sattr3 {
                size: SetSize3::True(size as u64),
                ..Sattr3::UNSET
            },
            guard: Sattrguard3::False,
        };
        let res = self.nfs.setattr(&args).await.unwrap();
        match &mut self.objects[id].content {
            Content::File(bytes) => {
                assert_status(res.status(), &[]);
                bytes.resize(size, 0);
            }
            Content::Dir(_) => assert_status(res.status(), &[Nfsstat3::Inval]),
            Content::Gone => assert_status(res.status(), &[Nfsstat3::Stale]),
        }
    }

    async fn read(&mut self) {
        let (id, offset) = (self.any(), self.random.below(MAX_OFFSET));
        let (count, handle) = (self.random.below(200_000), self.handle(id));
        let args = Read3args {
            file: fh(&handle),
            offset: offset as u64,
            count: count as u32,
        };
        let res = self.nfs.read(&args).await.unwrap();
        match (res, &self.objects[id].content) {
            (owned::Read3res::Ok(ok), Content::File(bytes)) => {
                let from = offset.min(bytes.len());
                let to = (offset + count).min(bytes.len()).max(from);
                assert!(ok.data.as_bytes() == &bytes[from..to]);
                assert_eq!(ok.eof, offset + count >= bytes.len());
            }
            (res, Content::File(_)) => panic!("{:?}", res.status()),
            (res, Content::Dir(_)) => assert_status(res.status(), &[Nfsstat3::Inval]),
            (res, Content::Gone) => assert_status(res.status(), &[Nfsstat3::Stale]),
        }
    }

    async fn remove(&mut self) {
        let (dir, name) = (self.dir(), self.name());
        let handle = self.handle(dir);
        let args = Remove3args {
            object: place(&handle, &name),
        };
        let res = self.nfs.remove(&args).await.unwrap();
        match self.find(dir, &name) {
            Ok(id) if self.is_dir(id) => assert_status(res.status(), &[Nfsstat3::Isdir]),
            Ok(id) => {
                assert_status(res.status(), &[]);
                self.names(dir).unwrap().remove(&name);
                self.release(id);
            }
            Err(error) => assert_status(res.status(), &[error]),
        }
    }

    async fn remove_dir(&mut self) {
        let (dir, name) = (self.dir(), self.name());
        let handle = self.handle(dir);
        let args = Rmdir3args {
            object: place(&handle, &name),
        };
        let res = self.nfs.rmdir(&args).await.unwrap();
        match self.find(dir, &name) {
            Ok(id) if !self.is_dir(id) => assert_status(res.status(), &[Nfsstat3::Notdir]),
            Ok(id) if !self.is_empty(id) => assert_status(res.status(), &[Nfsstat3::Notempty]),
            Ok(id) => {
                assert_status(res.status(), &[]);
                self.names(dir).unwrap().remove(&name);
                self.release(id);
            }
            Err(error) => assert_status(res.status(), &[error]),
        }
    }

    async fn rename(&mut self) {
        let (from, to) = (self.dir(), self.dir());
        let (old, new) = (self.name(), self.name());
        let (from_handle, to_handle) = (self.handle(from), self.handle(to));
        let args = Rename3args {
            from: place(&from_handle, &old),
            to: place(&to_handle, &new),
        };
        let status = self.nfs.rename(&args).await.unwrap().status();
        let (source, target) = (self.find(from, &old), self.find(to, &new));
        let mut errors = Vec::new();
        errors.extend(source.err());
        errors.extend(target.err().filter(|error| *error != Nfsstat3::Noent));
        if source == target && errors.is_empty() {
            return assert_status(status, &[]);
        }
        if let Ok(source) = source {
            if self.is_dir(source) && self.is_within(to, source) {
                errors.push(Nfsstat3::Inval);
            }
            if let Ok(target) = target {
                let is_full = self.is_dir(target) && !self.is_empty(target);
                if self.is_dir(source) != self.is_dir(target) || is_full {
                    errors.push(Nfsstat3::Exist);
                }
            }
        }
        assert_status(status, &errors);
        if let (Ok(source), true) = (source, errors.is_empty()) {
            self.names(from).unwrap().remove(&old);
            self.names(to).unwrap().insert(new, source);
            target.into_iter().for_each(|target| self.release(target));
        }
    }

    async fn link(&mut self) {
        let (id, dir, name) = (self.any(), self.dir(), self.name());
        let (file, handle) = (self.handle(id), self.handle(dir));
        let args = Link3args {
            file: fh(&file),
            link: place(&handle, &name),
        };
        let status = self.nfs.link(&args).await.unwrap().status();
        let mut errors = Vec::new();
        match self.objects[id].content {
            Content::Dir(_) => errors.push(Nfsstat3::Inval),
            Content::Gone => errors.push(Nfsstat3::Stale),
            Content::File(_) => {}
        }
        match self.find(dir, &name) {
            Ok(_) => errors.push(Nfsstat3::Exist),
            Err(Nfsstat3::Noent) => {}
            Err(error) => errors.push(error),
        }
        assert_status(status, &errors);
        if errors.is_empty() {
            self.names(dir).unwrap().insert(name, id);
        }
    }

    async fn lookup(&mut self) {
        let (dir, name) = (self.dir(), self.name());
        let handle = self.handle(dir);
        let args = Lookup3args {
            what: place(&handle, &name),
        };
        match (self.nfs.lookup(&args).await.unwrap(), self.find(dir, &name)) {
            (owned::Lookup3res::Ok(ok), Ok(id)) => {
                assert_eq!(ok.object.data.as_bytes(), self.handle(id));
            }
            (res, found) => assert_status(res.status(), &[found.unwrap_err()]),
        }
    }

    async fn step(&mut self) {
        match self.random.below(20) {
            0..=2 => self.create().await,
            3..=4 => self.make_dir().await,
            5..=7 => self.write().await,
            8 => self.set_size().await,
            9..=10 => self.read().await,
            11..=12 => self.remove().await,
            13 => self.remove_dir().await,
            14..=16 => self.rename().await,
            17 => self.link().await,
            _ => self.lookup().await,
        }
    }

    /// Compares the whole file system: attributes, contents and names.
    async fn compare(&mut self) {
        for id in 0..self.objects.len() {
            let object = self.objects[id].clone();
            let args = Getattr3args {
                object: fh(&object.handle),
            };
            let attributes = match self.nfs.getattr(&args).await.unwrap() {
                owned::Getattr3res::Ok(ok) => Ok(ok.obj_attributes),
                owned::Getattr3res::Default(status) => Err(status),
            };
            match &object.content {
                Content::Gone => assert_eq!(attributes, Err(Nfsstat3::Stale)),
                Content::File(bytes) => {
                    let attributes = attributes.unwrap();
                    assert_eq!(attributes.r#type, Ftype3::Reg);
                    assert_eq!(attributes.size, bytes.len() as u64);
                    assert_eq!(attributes.nlink as usize, self.links(id));
                    self.compare_bytes(&object.handle, bytes).await;
                }
                Content::Dir(names) => {
                    let attributes = attributes.unwrap();
                    let dirs = names.values().filter(|id| self.is_dir(**id)).count();
                    assert_eq!(attributes.r#type, Ftype3::Dir);
                    assert_eq!(attributes.nlink as usize, 2 + dirs);
                    self.compare_names(&object.handle, names).await;
                }
            }
        }
    }

    async fn compare_bytes(&self, handle: &[u8], bytes: &[u8]) {
        let args = Read3args {
            file: fh(handle),
            offset: 0,
            count: 1 << 20,
        };
        let owned::Read3res::Ok(ok) = self.nfs.read(&args).await.unwrap() else {
            panic!("fails");
        };
        assert!(ok.data.as_bytes() == bytes && ok.eof);
    }

    async fn compare_names(&self, handle: &[u8], names: &BTreeMap<String, usize>) {
        let args = Readdir3args {
            dir: fh(handle),
            cookie: 0,
            cookieverf: [0; 8],
            count: 65536,
        };
        let owned::Readdir3res::Ok(ok) = self.nfs.readdir(&args).await.unwrap() else {
            panic!("fails");
        };
        let entries = ok.reply.entries.iter();
        let mut found: Vec<_> = entries.map(|entry| entry.name.to_str().unwrap()).collect();
        found.retain(|name| !name.starts_with('.'));
        found.sort_unstable();
        let expected: Vec<_> = names.keys().map(String::as_str).collect();
        assert!(found == expected && ok.reply.eof);
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_server_matches_the_model() {
    let random = std::collections::hash_map::RandomState::new().hash_one(0);
    let seed = setting("NFS_MODEL_SEED").unwrap_or(random) | 1;
    println!("NFS_MODEL_SEED={seed}");
    let steps = setting("NFS_MODEL_STEPS").unwrap_or(4000);
    let run = Run { seed, steps };
    on_memory(&run, 0o755);
    #[cfg(all(feature = "host", target_os = "linux"))]
    for kernel_handles in [true, false] {
        crate::backends::host::on_host(&run, 0o755, kernel_handles);
    }
}

/// A run with one file system.
struct Run {
    seed: u64,
    steps: u64,
}

impl Work for Run {
    type Output = ();

    fn on<F: FileSystem>(&self, file_system: F, _: Expected) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let root = file_system.root().as_bytes().to_vec();
            let (channel, runner) = loopback(router(Offer::OPEN.export(file_system)));
            tokio::spawn(runner);
            let options = CallOptions::DEFAULT.credentials(AuthSys::new("model"));
            let mut model = Model {
                objects: vec![Object {
                    handle: root,
                    content: Content::Dir(BTreeMap::new()),
                }],
                nfs: Client::new(channel).with_options(options),
                random: Random(self.seed),
            };
            for step in 1..=self.steps {
                model.step().await;
                if step % 500 == 0 {
                    model.compare().await;
                }
            }
            model.compare().await;
        });
    }
}

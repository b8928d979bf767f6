//! The kernel's NFS client with this crate's server.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use oncrpc::xdr::{Error, ErrorKind};
use oncrpc::{Context, Credentials, Router, RpcError};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::private_data::PrivateData;
use rpcrdma_proto::version::Version;
use rpcrdma_transport_tests::{nfs3, nfs4};
use rpcrdma_verbs::LocalServer;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;

use crate::peer::Linux;
use crate::wire::{Acceptor, PeerEvent};
use crate::{NFS, word, words};

/// The timeout of a mount that fails because of the server's replies. An unanswered mount waits for
/// a minute or more.
const PATIENCE: Duration = Duration::from_secs(25);

/// A mount in progress.
struct Mount {
    child: Child,
    at: PathBuf,
    began: Instant,
}

impl Mount {
    fn new(server: SocketAddr, version: &str) -> Self {
        let at =
            std::env::temp_dir().join(format!("rpcrdma-{}-{}", std::process::id(), server.port()));
        fs::create_dir_all(&at).unwrap();
        // Version 3 first asks the kernel's mountd for the root.
        let (path, more) = if version == "3" {
            ("/export", ",mountproto=tcp,nolock")
        } else {
            ("/", "")
        };
        let options = format!(
            "vers={version},proto=rdma,port={},retry=0{more}",
            server.port()
        );
        let child = Command::new("mount.nfs")
            .arg(format!("{}:{path}", server.ip()))
            .arg(&at)
            .args(["-v", "-o", &options])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("mount.nfs");
        Self {
            child,
            at,
            began: Instant::now(),
        }
    }

    fn is_over(&mut self) -> bool {
        assert!(self.began.elapsed() < PATIENCE, "the mount hangs");
        self.child.try_wait().unwrap().is_some()
    }

    /// Checks that the mount fails with this message.
    fn fails(mut self, why: &str) {
        while !self.is_over() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut said = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(
            !self.child.wait().unwrap().success() && said.contains(why),
            "{said}"
        );
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A finished process cannot be killed, and a failed mount leaves an empty folder.
        let _ = self.child.kill();
        let _ = fs::remove_dir(&self.at);
    }
}

/// The kernel's log from now on.
struct KernelLog(File);

impl KernelLog {
    fn new() -> Self {
        const NONBLOCK: i32 = 0o4000;
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(NONBLOCK)
            .open("/dev/kmsg")
            .expect("/dev/kmsg");
        file.seek(SeekFrom::End(0)).unwrap();
        Self(file)
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        let mut line = [0; 8192];
        // Each read returns one line, or an error if there is none.
        while let Ok(bytes) = self.0.read(&mut line) {
            said += &String::from_utf8_lossy(&line[..bytes]);
        }
        said
    }
}

/// The trace of the kernel's client from now on.
struct Trace(&'static Path);

impl Trace {
    const EVENTS: [&str; 2] = ["xprtrdma_inline_thresh", "xprtrdma_reply"];

    /// Returns `None` if the kernel does not trace.
    fn new() -> Option<Self> {
        let at = Path::new("/sys/kernel/debug/tracing");
        let this = Self(at);
        // The names of tasks are recorded by a probe of every task switch. On an emulated machine,
        // the kernel may hang when its code is changed for the probe.
        if fs::write(at.join("options/record-cmd"), "0").is_err() || !this.switch("1") {
            println!(
                "no tracing in {}: what the kernel makes of private data and credits is not seen",
                at.display()
            );
            return None;
        }
        Some(this)
    }

    fn clear(&self) {
        fs::write(self.0.join("trace"), "").unwrap();
    }

    fn switch(&self, on: &str) -> bool {
        let switch =
            |event| fs::write(self.0.join("events/rpcrdma").join(event).join("enable"), on).is_ok();
        Self::EVENTS.into_iter().all(switch)
    }

    fn said(&self) -> String {
        fs::read_to_string(self.0.join("trace")).unwrap()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.switch("0");
    }
}

/// Returns the machine, if NFS may be mounted there.
fn linux() -> Option<Linux> {
    let linux = Linux::new()?;
    if std::env::var_os("RPCRDMA_MOUNT").is_none() {
        println!(
            "RPCRDMA_MOUNT is missing: NFS is mounted as root, and in a machine of its own alone"
        );
        return None;
    }
    Some(linux)
}

/// The error with which a test server refuses calls other than NULL.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    ProcedureUnavailable,
    GarbageArgs,
}

/// Version, procedure and user of a call.
type RefusedCall = (u32, u32, Option<u32>);

/// An NFS server that serves only NULL.
#[derive(Clone)]
struct RefusingServer {
    refusal: Refusal,
    /// The calls after NULL.
    calls: Rc<RefCell<Vec<RefusedCall>>>,
}

impl RefusingServer {
    fn refuse(&self, cx: &Context) -> RpcError {
        let procedure = cx.procedure();
        let user = match cx.credentials() {
            Credentials::Sys(user) => Some(user.uid),
            _ => None,
        };
        let call = (procedure.version, procedure.number, user);
        self.calls.borrow_mut().push(call);
        match self.refusal {
            Refusal::ProcedureUnavailable => RpcError::ProcedureUnavailable,
            Refusal::GarbageArgs => {
                RpcError::GarbageArgs(Error::new(ErrorKind::UnexpectedEnd, 0), None)
            }
        }
    }
}

impl nfs3::LocalService for RefusingServer {
    fn authorize(&self, cx: &Context) -> Result<(), RpcError> {
        Err(self.refuse(cx))
    }

    async fn fsinfo(&self, _: &Context) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }
}

impl nfs4::LocalService for RefusingServer {
    fn authorize(&self, cx: &Context) -> Result<(), RpcError> {
        Err(self.refuse(cx))
    }

    async fn compound(&self, _: &Context) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }
}

/// Makes the kernel mount from this crate's server. The kernel calls NULL, then its first real
/// procedure as root, and fails at once because of the reply: mount.nfs prints `why`, and for
/// version 4 the kernel logs `error`.
fn mounted(linux: &Linux, version: &str, refusal: Refusal, why: &str, error: Option<&str>) {
    let mut driver = Driver::new(&linux.open(), &Budget::new(1 << 26), 4096).unwrap();
    let calls = Rc::default();
    let service = RefusingServer { refusal, calls };
    let router = Router::new()
        .add_service(nfs3::serve_local(service.clone()))
        .add_service(nfs4::serve_local(service.clone()));
    let mut server =
        LocalServer::bind(&mut driver, linux.anywhere(), Config::server(), router).unwrap();
    let mut kernel = KernelLog::new();
    let mut mount = Mount::new(server.local_addr(), version);
    let mut last = None;
    while !mount.is_over() {
        driver.turn().unwrap();
        server.serve(&mut driver);
        for connection in server.connections() {
            last = driver
                .session(*connection)
                .map(|session| (session.version(), session.counters()))
                .or(last);
        }
        driver.wait(Duration::from_millis(5)).unwrap();
    }
    mount.fails(why);
    let first = if version == "3" {
        (3, 19, Some(0))
    } else {
        (4, 1, Some(0))
    };
    let calls = service.calls.borrow();
    // The router answers NULL, which comes first: later calls show that it did.
    assert!(!calls.is_empty(), "NULL was not answered");
    assert!(
        calls.iter().all(|call| *call == first),
        "{version}, {refusal:?}: {calls:?}"
    );
    let (spoken, counters) = last.expect("a connection");
    let wrong = counters.refused + counters.dropped + counters.unexpected + counters.duplicate_xid;
    assert_eq!((spoken, wrong), (Some(Version::One), 0), "{counters:?}");
    assert!(counters.received > 0, "{counters:?}");
    if let Some(error) = error {
        let said = kernel.said();
        assert!(
            said.contains(&format!(
                "nfs4_discover_server_trunking unhandled error {error}"
            )),
            "{said}"
        );
    }
}

#[test]
fn its_first_calls_are_answered() {
    let Some(linux) = linux() else { return };
    let (unavailable, garbage) = (Refusal::ProcedureUnavailable, Refusal::GarbageArgs);
    let why = "Input/output error";
    for version in ["4.1", "4.0"] {
        // EOPNOTSUPP and EIO.
        mounted(&linux, version, unavailable, why, Some("-95"));
        mounted(&linux, version, garbage, why, Some("-5"));
    }
    mounted(&linux, "3", unavailable, "Operation not supported", None);
    mounted(&linux, "3", garbage, why, None);
}

/// Compares its first messages byte by byte, and checks how it uses the server's private data, and
/// a grant of zero.
#[test]
fn its_first_messages_are_unchanged() {
    let Some(linux) = linux() else { return };
    let sizes = PrivateData::from_sizes(2048, 8192).encode();
    let trace = Trace::new();
    for (grant, ours, credits, thresholds) in [
        (
            32,
            sizes.as_slice(),
            "credits=32",
            "neg send/recv=4096/2048",
        ),
        (0, &sizes, "credits=1\n", "neg send/recv=4096/2048"),
        (32, &[], "credits=32", "neg send/recv=1024/1024"),
    ] {
        trace.iter().for_each(Trace::clear);
        let acceptor = Acceptor::new(&linux.open(), linux.anywhere());
        let mount = Mount::new(acceptor.address, "4.1");
        let (mut wire, said) = acceptor.accept(ours);
        let (told, padding) = said.split_at(8);
        assert_eq!(
            told,
            [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3],
            "4096 bytes each way, and its keys may be invalidated"
        );
        assert!(padding.iter().all(|byte| *byte == 0), "{said:x?}");
        assert_eq!(
            PrivateData::parse(&said),
            PrivateData::from_sizes(4096, 4096).with_remote_invalidation(true)
        );

        let PeerEvent::Message(null, None) = wire.receive(PATIENCE) else {
            panic!("a call should come")
        };
        let xid = word(&null, 0);
        assert_eq!(
            null,
            words(&[&[xid, 1, 128, 0, 0, 0, 0][..], &crate::null_call(xid, 4)].concat())
        );
        wire.send(&words(&[xid, 1, grant, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0]));

        // A COMPOUND has no Read list, no Write list, and a Reply chunk of one segment.
        let PeerEvent::Message(compound, None) = wire.receive(PATIENCE) else {
            panic!("another call should come")
        };
        let [xid, version, asked, rest @ ..] =
            [0, 1, 2, 3, 4, 5, 6, 7].map(|at| word(&compound, at));
        assert_eq!((version, asked, rest), (1, 128, [0, 0, 0, 1, 1]));
        assert_eq!(
            [12, 13, 14, 15, 16, 17].map(|at| word(&compound, at)),
            [xid, 0, 2, NFS, 4, 1]
        );
        // The reply is nevertheless inline: the procedure does not exist.
        wire.send(&words(&[xid, 1, grant, 0, 0, 0, 0, xid, 1, 0, 0, 0, 3]));
        mount.fails("Input/output error");
        if let Some(trace) = &trace {
            let said = trace.said();
            assert!(
                said.contains(credits) && said.contains(thresholds),
                "{said}"
            );
        }
    }
}

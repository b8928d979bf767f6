//! Servers that violate the protocol: the test provides each reply.

use std::cell::RefCell;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::Arc;

use oncrpc::xdr::{Encode, ListBuf, OpaqueBuf, TextBuf};
use oncrpc::{AsyncTransport, Body, CallError, CallOptions, ReceivedMessage, Request, Transport};
use rpcrdma_nfs::FileHandle;
use rpcrdma_nfs::client::{Client, ClientError, ProtocolFault};
use rpcrdma_nfs::nfs3::owned::{
    Commit3res, Commit3resok, Dirlist3, Entry3Item, Fsinfo3res, Fsinfo3resok, PostOpAttr, Read3res,
    Read3resok, Readdir3res, Readdir3resok, WccData, Write3res, Write3resok,
};
use rpcrdma_nfs::nfs3::{Nfstime3, PreOpAttr, StableHow};

/// A server whose results come from a function of the procedure number and of the number of earlier
/// calls.
#[derive(Clone)]
struct FaultyServer<F>(Rc<(F, RefCell<Vec<u32>>)>);

impl<F> Transport for FaultyServer<F> {
    fn peer(&self) -> Arc<str> {
        "server".into()
    }
}

impl<F: Fn(u32, usize) -> Vec<u8>> AsyncTransport for FaultyServer<F> {
    type Call = Ready<Result<ReceivedMessage, CallError>>;

    fn call(&self, request: Request) -> Self::Call {
        let (results, calls) = &*self.0;
        let (number, before) = (request.procedure.number, calls.borrow().len());
        calls.borrow_mut().push(number);
        // An accepted reply without a verifier (RFC 5531, section 9).
        let header = [0u32, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
        let message = [header, results(number, before)].concat();
        ready(Ok(ReceivedMessage::whole(message.into())))
    }
}

const READ: u32 = 6;
const WRITE: u32 = 7;
const READDIR: u32 = 16;
const FSINFO: u32 = 19;
const COMMIT: u32 = 21;

fn bytes(results: &impl Encode) -> Vec<u8> {
    let mut body = Body::new();
    body.encode_with(|sink| results.encode(sink)).unwrap();
    assert!(body.items().is_empty(), "no item is long");
    body.stream().to_vec()
}

fn info(rtmax: u32, wtmax: u32) -> Vec<u8> {
    bytes(&Fsinfo3res::Ok(Box::new(Fsinfo3resok {
        obj_attributes: PostOpAttr::False,
        rtmax,
        rtpref: rtmax,
        rtmult: 1,
        wtmax,
        wtpref: wtmax,
        wtmult: 1,
        dtpref: u32::MAX,
        maxfilesize: u64::MAX,
        time_delta: Nfstime3 {
            seconds: 0,
            nseconds: 1,
        },
        properties: 0,
    })))
}

fn read(count: u32, data: &[u8], eof: bool) -> Vec<u8> {
    bytes(&Read3res::Ok(Box::new(Read3resok {
        file_attributes: PostOpAttr::False,
        count,
        eof,
        data: data.to_vec().into(),
    })))
}

fn wcc() -> WccData {
    WccData {
        before: PreOpAttr::False,
        after: PostOpAttr::False,
    }
}

fn write(count: u32, committed: StableHow, verifier: u8) -> Vec<u8> {
    bytes(&Write3res::Ok(Box::new(Write3resok {
        file_wcc: wcc(),
        count,
        committed,
        verf: [verifier; 8],
    })))
}

fn commit(verifier: u8) -> Vec<u8> {
    bytes(&Commit3res::Ok(Box::new(Commit3resok {
        file_wcc: wcc(),
        verf: [verifier; 8],
    })))
}

fn listing(cookies: &[u64], name: &str, eof: bool) -> Vec<u8> {
    let entries = cookies.iter().map(|cookie| Entry3Item {
        fileid: 1,
        name: TextBuf::new(name.to_owned()).unwrap(),
        cookie: *cookie,
    });
    let entries: ListBuf<_> = entries.collect();
    bytes(&Readdir3res::Ok(Box::new(Readdir3resok {
        dir_attributes: PostOpAttr::False,
        cookieverf: [0; 8],
        reply: Dirlist3 { entries, eof },
    })))
}

fn handle() -> FileHandle {
    FileHandle::from(&OpaqueBuf::new(b"handle".to_vec()).unwrap())
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

/// Runs a test with a client of a faulty server, which returns valid limits.
fn with_faulty_server<F, R>(
    results: F,
    test: impl AsyncFn(&Client<FaultyServer<F>>) -> R,
) -> (R, Vec<u32>)
where
    F: Fn(u32, usize) -> Vec<u8> + Clone,
{
    let server = FaultyServer(Rc::new((results, RefCell::default())));
    let result = run(async {
        let client = Client::new(server.clone(), CallOptions::DEFAULT, handle()).await;
        test(&client.unwrap()).await
    });
    let calls = server.0.1.borrow().clone();
    (result, calls)
}

#[track_caller]
fn assert_fault<T: std::fmt::Debug>(result: Result<T, ClientError>, expected: ProtocolFault) {
    match result.unwrap_err() {
        ClientError::Protocol { fault, .. } => assert_eq!(fault, expected),
        other => panic!("{other}"),
    }
}

#[test]
fn extreme_limits_are_reduced_or_rejected() {
    let ((), _) = with_faulty_server(
        |_, _| info(u32::MAX, u32::MAX),
        async |client| {
            let limits = client.limits();
            assert_eq!(
                (limits.read, limits.write, limits.listing),
                (1 << 20, 1 << 20, 1 << 16)
            );
        },
    );
    for (rtmax, wtmax) in [(0, 1), (1, 0)] {
        let server = FaultyServer(Rc::new((
            move |_, _| info(rtmax, wtmax),
            RefCell::default(),
        )));
        let client = run(Client::new(server, CallOptions::DEFAULT, handle()));
        assert!(matches!(
            client.map(|_| ()).unwrap_err(),
            ClientError::Protocol {
                fault: ProtocolFault::NoLimit,
                ..
            }
        ));
    }
}

fn reading(
    answer: impl Fn(usize) -> Vec<u8> + Clone,
    len: usize,
) -> Result<(usize, Vec<u8>), ClientError> {
    let results = move |number, before: usize| match number {
        FSINFO => info(100, 100),
        READ => answer(before - 1),
        other => panic!("procedure {other}"),
    };
    let read = async |client: &Client<FaultyServer<_>>| {
        let mut into = vec![0; len];
        let count = client.read_into(&handle(), 0, &mut into).await;
        count.map(|count| (count, into))
    };
    with_faulty_server(results, read).0
}

#[test]
fn excess_bytes_are_rejected() {
    assert_fault(
        reading(|_| read(101, &[1; 101], false), 100),
        ProtocolFault::Count,
    );
    assert_fault(
        reading(|_| read(100, &[1; 99], false), 100),
        ProtocolFault::Count,
    );
    assert_fault(
        reading(|_| read(5, &[1; 6], true), 100),
        ProtocolFault::Count,
    );
}

#[test]
fn a_read_without_progress_ends() {
    assert_fault(
        reading(|_| read(0, &[], false), 100),
        ProtocolFault::NoProgress,
    );
}

#[test]
fn short_reads_are_continued_in_order() {
    // The stream requests 100 and 50 bytes at once; the first READ returns its data in two parts.
    let answers = |at: usize| match at {
        0 => read(30, &[1; 30], false),
        1 => read(50, &[3; 50], false),
        2 => read(70, &[2; 70], false),
        other => panic!("call {other}"),
    };
    let (count, found) = reading(answers, 150).unwrap();
    assert_eq!(count, 150);
    assert_eq!(found, [vec![1; 30], vec![2; 70], vec![3; 50]].concat());
}

fn writing(
    answer: impl Fn(u32, usize) -> Vec<u8> + Clone,
    stable: StableHow,
) -> (Result<(), ClientError>, Vec<u32>) {
    let results = move |number, before: usize| match number {
        FSINFO => info(100, 100),
        number => answer(number, before - 1),
    };
    let data = [7; 250];
    with_faulty_server(results, async |client: &Client<FaultyServer<_>>| {
        client.write_all(&handle(), 0, &data[..], stable).await
    })
}

#[test]
fn bytes_are_written_again_when_the_verifier_changes() {
    // The server restarts before the first COMMIT.
    let answers = |number, before| match (number, before) {
        (COMMIT, _) => commit(2),
        (WRITE, before) => write(
            if before % 4 == 2 { 50 } else { 100 },
            StableHow::Unstable,
            if before < 3 { 1 } else { 2 },
        ),
        other => panic!("{other:?}"),
    };
    let (result, calls) = writing(answers, StableHow::Unstable);
    result.unwrap();
    let expected = [
        FSINFO, WRITE, WRITE, WRITE, COMMIT, WRITE, WRITE, WRITE, COMMIT,
    ];
    assert_eq!(calls, expected);
}

#[test]
fn a_changed_verifier_between_writes_counts_as_a_loss() {
    // COMMIT returns the verifier of the last WRITE, so the first one is lost.
    let answers = |number, before: usize| match number {
        COMMIT => commit(2),
        _ if before % 4 == 2 => write(50, StableHow::Unstable, 2),
        _ => write(100, StableHow::Unstable, if before == 0 { 1 } else { 2 }),
    };
    let (result, calls) = writing(answers, StableHow::Unstable);
    result.unwrap();
    assert_eq!(calls.iter().filter(|call| **call == COMMIT).count(), 2);
}

#[test]
fn a_verifier_that_always_changes_ends_the_operation() {
    let answers = |number, before: usize| match number {
        COMMIT => commit(255),
        _ if before % 4 == 2 => write(50, StableHow::Unstable, 0),
        _ => write(100, StableHow::Unstable, 0),
    };
    let (result, calls) = writing(answers, StableHow::Unstable);
    assert_fault(result, ProtocolFault::Verifier);
    assert_eq!(calls.iter().filter(|call| **call == COMMIT).count(), 8);
}

#[test]
fn stable_writes_need_no_commit() {
    let answers = |_, before| write([100, 100, 50][before], StableHow::FileSync, 1);
    let (result, calls) = writing(answers, StableHow::Unstable);
    result.unwrap();
    assert_eq!(calls, [FSINFO, WRITE, WRITE, WRITE]);
}

#[test]
fn invalid_write_results_are_rejected() {
    let cases = [
        (101, StableHow::FileSync, ProtocolFault::Count),
        (0, StableHow::FileSync, ProtocolFault::NoProgress),
        (100, StableHow::DataSync, ProtocolFault::Stability),
    ];
    for (count, committed, expected) in cases {
        let answers = move |_, _| write(count, committed, 1);
        assert_fault(writing(answers, StableHow::FileSync).0, expected);
    }
}

/// Lists a directory to its end. Returns the number of calls.
fn list(answer: impl Fn(usize) -> Vec<u8> + Clone) -> (Result<usize, ClientError>, usize) {
    let results = move |number, before: usize| match number {
        READDIR => answer(before - 1),
        _ => info(1, 1),
    };
    let (result, calls) = with_faulty_server(results, async |client: &Client<FaultyServer<_>>| {
        let dir = handle();
        let (mut stream, mut count) = (client.read_dir(&dir), 0);
        while let Some(entries) = stream.next().await? {
            count += entries.len();
        }
        Ok(count)
    });
    (result, calls.len() - 1)
}

#[test]
fn endless_directories_are_rejected() {
    // The same cookie again; the cookie of the start; a reply without entries.
    assert_fault(
        list(|_| listing(&[1, 2], "a", false)).0,
        ProtocolFault::Cookies,
    );
    assert_fault(
        list(|_| listing(&[1, 0], "a", false)).0,
        ProtocolFault::Cookies,
    );
    assert_fault(list(|_| listing(&[], "a", false)).0, ProtocolFault::Cookies);
    // A cycle of 1000 replies, after 500 others.
    let round = |at: usize| {
        let cookie = if at < 500 {
            at
        } else {
            500 + (at - 500) % 1000
        };
        listing(&[cookie as u64 + 1], "a", false)
    };
    let (result, calls) = list(round);
    assert_fault(result, ProtocolFault::Cookies);
    assert!(calls < 3 * 1500, "{calls}");
}

#[test]
fn long_directories_are_listed() {
    let parts = |at: usize| listing(&[2 * at as u64 + 1, 2 * at as u64 + 2], "a", at == 4999);
    let (result, calls) = list(parts);
    assert_eq!((result.unwrap(), calls), (10_000, 5000));
    assert_eq!(list(|_| listing(&[], "a", true)).0.unwrap(), 0);
}

#[test]
fn invalid_names_are_rejected() {
    for name in ["", "../../etc/passwd", "a\0b"] {
        assert_fault(list(|_| listing(&[1], name, true)).0, ProtocolFault::Name);
    }
}

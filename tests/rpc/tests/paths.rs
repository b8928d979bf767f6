//! The field that an error names, in messages whose items arrive apart from the stream.

use std::future::{Future, Ready, ready};
use std::sync::{Arc, Mutex};

use crate::support::run;
use oncrpc::xdr::{Matching, Procedure, ReceivedItem};
use oncrpc::{
    AsyncTransport, BackwardError, CallError, Context, Dispatch, HandlerDeadline, IncomingCall,
    OutgoingReply, Peer, ReceivedMessage, ReplyWriter, Request, Router, RpcError, Transport,
};
use rpcrdma_rpc_tests::catalog::PictureLengths;
use rpcrdma_rpc_tests::catalog::catalog::catalog1;
use rpcrdma_rpc_tests::kv::kv;

/// Answers each call with the same message.
struct Answer(ReceivedMessage);

impl Transport for Answer {
    fn peer(&self) -> Arc<str> {
        "there".into()
    }
}

impl AsyncTransport for Answer {
    type Call = Ready<Result<ReceivedMessage, CallError>>;

    fn call(&self, _: Request) -> Self::Call {
        ready(Ok(self.0.clone()))
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn item(position: u32, len: usize) -> ReceivedItem {
    let bytes = vec![7; len].into();
    ReceivedItem { position, bytes }
}

/// Returns the text of the error of PAIR.
async fn pair_error(stream: Vec<u8>, items: Vec<ReceivedItem>, matching: Matching) -> String {
    let message = ReceivedMessage::with_items(stream.into(), items, matching);
    let catalog = catalog1::Client::new(Answer(message));
    let lengths = PictureLengths {
        first: 100,
        second: 1,
    };
    catalog.pair(&lengths).await.unwrap_err().to_string()
}

/// The first picture is not in the stream: what follows its length is the second.
#[test]
fn an_error_of_a_reply_names_the_field_behind_an_item() {
    run(async {
        for matching in [Matching::ByPosition, Matching::InOrder] {
            // The second picture is "a", with a padding that is not zero.
            let stream = words(&[7, 1, 0, 0, 0, 0, 100, 1, 0x6100_0001]);
            let items = vec![item(28, 100)];
            let error = pair_error(stream, items.clone(), matching).await;
            let text = "the reply can't be decoded: second: padding is not zero at byte 33 ";
            assert!(error.contains(text), "{matching:?}: {error}");
            // More bytes follow than the schema has. No field is wrong.
            let stream = words(&[7, 1, 0, 0, 0, 0, 100, 1, 0x6100_0000, 100]);
            let error = pair_error(stream, items, matching).await;
            let text = "the reply can't be decoded: trailing bytes after the value at byte 36 ";
            assert!(error.contains(text), "{matching:?}: {error}");
        }
    });
}

/// Decodes the arguments of PUT, and keeps the error.
#[derive(Clone, Default)]
struct Puts(Arc<Mutex<String>>);

struct Put;

impl Procedure for Put {
    const PROGRAM: u32 = kv::PROGRAM;
    const VERSION: u32 = 1;
    const NUMBER: u32 = 2;
    const NAME: &'static str = "PUT";
    type Args<'a> = rpcrdma_rpc_tests::kv::PutArgs<'a>;
    type Reply<'a> = ();
}

impl Dispatch for Puts {
    const PROGRAM: u32 = kv::PROGRAM;
    const VERSION: u32 = 1;

    fn procedure_name(_: u32) -> Option<&'static str> {
        Some("PUT")
    }

    fn is_idempotent(_: u32) -> bool {
        true
    }

    fn dispatch<'a>(
        &'a self,
        _: &'a Context,
        call: IncomingCall<'a>,
        _: &'a mut ReplyWriter,
    ) -> impl Future<Output = Result<(), RpcError>> + Send {
        let args = call.args::<Put>().map(|_| ());
        let error = args.as_ref().err().map(ToString::to_string);
        *self.0.lock().unwrap() = error.unwrap_or_default();
        ready(args)
    }
}

/// Returns the error of the arguments of a PUT, behind a header of 40 bytes.
async fn put_error(args: Vec<u8>, items: Vec<ReceivedItem>) -> String {
    let header = words(&[7, 0, 2, kv::PROGRAM, 1, 2, 0, 0, 0, 0]);
    let stream = [header, args].concat();
    let message = match items.is_empty() {
        true => ReceivedMessage::whole(stream.into()),
        false => ReceivedMessage::with_items(stream.into(), items, Matching::ByPosition),
    };
    let puts = Puts::default();
    let router = Router::new().add_service(puts.clone());
    let peer = Arc::new(Peer {
        address: None,
        transport: "memory",
        memory: None,
        caller: Err(BackwardError::Transport),
        status: None,
    });
    let deadline = HandlerDeadline::none();
    let reply = router.serve(&message, &peer, deadline, OutgoingReply::default());
    assert_eq!(reply.await.unwrap().header[20..], [0, 0, 0, 4]);
    puts.0.lock().unwrap().clone()
}

#[test]
fn an_error_of_a_call_has_the_field_and_the_offset_in_the_message() {
    run(async {
        let key = 0x6100_0000;
        // The padding of the key is not zero: with the value in the stream, and with the value
        // apart.
        let text = "the arguments can't be decoded: key: padding is not zero at byte 45";
        let stream = words(&[1, 0x6100_0001, 4, 5]);
        assert_eq!(put_error(stream, Vec::new()).await, text);
        let stream = words(&[1, 0x6100_0001, 4]);
        assert_eq!(put_error(stream, vec![item(52, 4)]).await, text);
        // An item where the arguments have none. No field is wrong.
        let stream = words(&[1, key, 4]);
        let text = "the arguments can't be decoded: trailing bytes after the value";
        let error = put_error(stream, vec![item(52, 4), item(4000, 4)]).await;
        assert!(error.starts_with(text), "{error}");
    });
}

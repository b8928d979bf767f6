//! Services whose results are borrowed, owned, or either of them.

use std::rc::Rc;
use std::sync::Arc;

use crate::support::run;
use catalog1::{
    Client, CoverResults, ListResults, LocalService, NameResults, PairResults, PicturesResults,
    Service, ShortenResults,
};
use oncrpc::protocol::AuthStat;
use oncrpc::xdr::{DdpArray, Encode as _, ListBuf, SharedBytes, Text};
use oncrpc::{
    AuthSys, Body, CallError, CallErrorKind, CallOptions, Channel, Context, Credentials, Execution,
    HandlerDeadline, OutgoingReply, Peer, ReceivedMessage, ReplyStatus, Router, RpcError, loopback,
};
use rpcrdma_rpc_tests::catalog::catalog::{self, catalog1};
use rpcrdma_rpc_tests::catalog::{
    Album, Cover, CoverRes, PictureLengths, PicturePair, TITLE_MAX, Title, owned,
};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerConfig, connect, serve};

struct Catalog {
    name: String,
    picture: SharedBytes,
}

impl Catalog {
    fn new() -> Self {
        Self {
            name: "Everything".to_owned(),
            picture: vec![7; 100_000].into(),
        }
    }
}

/// A book that exists only while a call is served.
fn book(number: u32) -> Result<owned::BookItem, RpcError> {
    Ok(owned::BookItem {
        name: format!("Volume {number}").try_into()?,
        pages: 100,
    })
}

impl Service for Catalog {
    fn authorize(&self, cx: &Context) -> Result<(), RpcError> {
        match cx.credentials() {
            Credentials::None => Err(RpcError::Auth(AuthStat::AuthTooweak)),
            _ => Ok(()),
        }
    }

    async fn list(&self, _: &Context, count: u32) -> Result<ListResults<'_>, RpcError> {
        let mut books = ListBuf::new();
        for number in 1..=count {
            let name = format!("Volume {number}").try_into()?;
            books.push(owned::BookItem { name, pages: 100 });
        }
        Ok(books.into())
    }

    async fn name(&self, _: &Context) -> Result<NameResults<'_>, RpcError> {
        Ok(Text::new(&self.name)?.into())
    }

    async fn shorten<'a>(
        &'a self,
        _: &'a Context,
        title: Title<'a>,
    ) -> Result<ShortenResults<'a>, RpcError> {
        let first = title.to_str()?.split(' ').next().unwrap_or_default();
        Ok(Text::new(first)?.into())
    }

    async fn pair(
        &self,
        cx: &Context,
        lengths: PictureLengths,
    ) -> Result<PairResults<'_>, RpcError> {
        let filled = |byte: u8, len: u32| {
            let mut picture = cx.item_buf(len as usize);
            picture.fill(byte);
            picture.into_item(len as usize)
        };
        let (first, second) = (filled(1, lengths.first), filled(2, lengths.second));
        Ok(PicturePair { first, second }.into())
    }

    async fn pictures(
        &self,
        _: &Context,
        lengths: PictureLengths,
    ) -> Result<PicturesResults<'_>, RpcError> {
        let mut pictures = ListBuf::new();
        for number in 1..=lengths.first {
            let len = if number == lengths.first {
                lengths.second
            } else {
                100
            };
            let bytes = SharedBytes::from(vec![3; len as usize]).into();
            pictures.push(owned::NumberedPictureItem { bytes });
        }
        Ok(pictures.into())
    }

    async fn cover(&self, _: &Context, title: Title<'_>) -> Result<CoverResults<'_>, RpcError> {
        Ok(match title.as_bytes() {
            b"borrowed" => CoverRes::True(Cover {
                name: Text::new(&self.name)?,
                picture: self.picture.as_bytes().into(),
            })
            .into(),
            b"shared" => CoverRes::True(Cover {
                name: Text::new(&self.name)?,
                picture: self.picture.clone().into(),
            })
            .into(),
            b"owned" => {
                let name = format!("{} of {}", self.name, self.picture.len());
                let cover = owned::Cover {
                    name: name.try_into()?,
                    picture: self.picture.clone().into(),
                };
                tokio::task::yield_now().await;
                owned::CoverRes::True(cover.into()).into()
            }
            b"too long" => {
                let name = "x".repeat(TITLE_MAX as usize + 1);
                let cover = owned::Cover {
                    name: name.try_into()?,
                    picture: self.picture.clone().into(),
                };
                owned::CoverRes::True(cover.into()).into()
            }
            _ => CoverRes::False.into(),
        })
    }

    async fn weigh(&self, _: &Context, album: Album<'_>) -> Result<u32, RpcError> {
        let pictures = album.pages.iter().map(|page| page.picture);
        let lengths = pictures.map(|picture| {
            assert!(picture.as_bytes().iter().all(|byte| *byte == 4));
            picture.len()
        });
        Ok(lengths.sum::<usize>().try_into()?)
    }

    async fn count(&self, _: &Context) -> Result<u32, RpcError> {
        Ok(3)
    }

    async fn clear(&self, _: &Context) -> Result<(), RpcError> {
        Ok(())
    }
}

/// Checks at compile time that the handlers' futures of a type are `Send`.
fn the_futures_can_be_sent(catalog: &Catalog, cx: &Context, title: Title<'_>) {
    fn check<T: Send>(_: T) {}
    check(Service::list(catalog, cx, 1));
    check(Service::name(catalog, cx));
    check(Service::shorten(catalog, cx, title));
    check(Service::cover(catalog, cx, title));
    check(Service::list(&Arc::new(Catalog::new()), cx, 1));
}

fn client(channel: Channel) -> Client<Channel> {
    let options = CallOptions::DEFAULT.credentials(AuthSys::new("here"));
    Client::new(channel).with_options(options)
}

async fn assert_results(client: &Client<Channel>) {
    let title = |text| Text::new(text).unwrap();
    let books: Vec<_> = (1..=3).map(|number| book(number).unwrap()).collect();
    assert_eq!(client.list(&3).await.unwrap(), books.into());
    assert_eq!(client.list(&0).await.unwrap(), ListBuf::new());
    assert_eq!(client.name().await.unwrap().as_bytes(), b"Everything");
    let short = client.shorten(&title("One Two")).await.unwrap();
    assert_eq!(short.as_bytes(), b"One");
    for (how, name) in [
        ("borrowed", "Everything"),
        ("shared", "Everything"),
        ("owned", "Everything of 100000"),
    ] {
        let owned::CoverRes::True(cover) = client.cover(&title(how)).await.unwrap() else {
            panic!("no cover, {how}");
        };
        assert_eq!(cover.name.as_bytes(), name.as_bytes(), "{how}");
        assert_eq!(*cover.picture, [7; 100_000], "{how}");
    }
    let none = client.cover(&title("none")).await.unwrap();
    assert_eq!(none, owned::CoverRes::False);
    assert_eq!(client.count().await.unwrap(), 3);
    client.clear().await.unwrap();
    for (first, second) in [
        (10, 100_000),
        (0, 100_000),
        (100_000, 0),
        (100_000, 10),
        (1023, 1024),
        (100_000, 100_000),
        (600, 600),
        (1000, 1000),
        (0, 0),
    ] {
        let pair = client
            .pair(&PictureLengths { first, second })
            .await
            .unwrap();
        assert_eq!(*pair.first, vec![1; first as usize], "{first}, {second}");
        assert_eq!(*pair.second, vec![2; second as usize], "{first}, {second}");
    }
}

/// A list of items does not use the client's Write chunks.
async fn assert_lists(client: &Client<Channel>) {
    // More items than the maximum chunks of a message.
    for (first, second) in [(3, 10), (12, 4096), (9, 40_000), (40, 1)] {
        let pictures = client.pictures(&PictureLengths { first, second }).await;
        let lengths: Vec<_> = pictures
            .unwrap()
            .iter()
            .map(|one| one.bytes.len())
            .collect();
        let mut expected = vec![100; first as usize];
        expected[first as usize - 1] = second as usize;
        assert_eq!(lengths, expected);
    }
}

/// The handler decodes the pages of an album one after the other.
async fn assert_albums(client: &Client<Channel>) {
    for lengths in [&[][..], &[0, 5, 1 << 14], &[1 << 16, 1 << 16], &[2000; 40]] {
        let pages = lengths.iter().map(|length| Cover {
            name: Text::new("page").unwrap(),
            picture: SharedBytes::from(vec![4; *length]).into(),
        });
        let pages: Vec<_> = pages.collect();
        let album = Album {
            pages: DdpArray::new(&pages).unwrap(),
        };
        let weight = client.weigh(&album).await.unwrap();
        assert_eq!(weight as usize, lengths.iter().sum::<usize>());
    }
}

async fn assert_errors(client: &Client<Channel>) {
    let status = |error: CallError| match error.kind() {
        CallErrorKind::Status(status) => *status,
        other => panic!("{other:?}"),
    };
    let long = client.cover(&Text::new("too long").unwrap()).await;
    let error = long.unwrap_err();
    assert_eq!(error.execution(), Execution::Unknown);
    assert_eq!(status(error), ReplyStatus::SystemError);
    let error = client.count().credentials(Credentials::None).await;
    let too_weak = ReplyStatus::AuthError(AuthStat::AuthTooweak);
    assert_eq!(status(error.unwrap_err()), too_weak);
}

#[test]
fn a_service_returns_either_shape_over_loopback() {
    let _: fn(&Catalog, &Context, Title<'_>) = the_futures_can_be_sent;
    run(async {
        let service = catalog1::serve(Arc::new(Catalog::new()));
        let (channel, runner) = loopback(Router::new().add_service(service));
        tokio::spawn(runner);
        let client = client(channel);
        assert_results(&client).await;
        assert_albums(&client).await;
        assert_errors(&client).await;
    });
}

#[test]
fn a_service_returns_either_shape_over_rdma() {
    let fabric = Fabric::new();
    let server = serve(
        &fabric.device(),
        "127.0.0.1:0".parse().unwrap(),
        ServerConfig::new(),
        || Router::new().add_service(catalog1::serve(Catalog::new())),
    )
    .unwrap();
    let address = server.local_addr();
    let channel = connect(&fabric.device(), address, ClientConfig::new()).unwrap();
    let client = client(channel);
    run(async move {
        assert_results(&client).await;
        assert_albums(&client).await;
        assert_lists(&client).await;
        assert_errors(&client).await;
    });
    server.drain().unwrap();
}

/// Returns a call with AUTH_SYS or without credentials.
fn call(procedure: u32, sys: bool, args: &[u8]) -> ReceivedMessage {
    // The stamp, the machine name, uid, gid, and no gids.
    let body: &[u32] = if sys {
        &[1, 20, 0, 0, 0, 0, 0]
    } else {
        &[0, 0]
    };
    let words = [&[9, 0, 2, catalog::PROGRAM, 1, procedure], body, &[0, 0]].concat();
    let header = words.iter().flat_map(|word| word.to_be_bytes());
    let message: Vec<u8> = header.chain(args.iter().copied()).collect();
    ReceivedMessage::whole(message.into())
}

fn peer() -> Arc<Peer> {
    Arc::new(Peer {
        address: None,
        transport: "memory",
        memory: None,
        caller: Err(oncrpc::BackwardError::Transport),
        status: None,
    })
}

#[test]
fn items_of_either_shape_are_not_copied() {
    run(async {
        let catalog = Arc::new(Catalog::new());
        let picture = catalog.picture.as_ptr();
        let router = Router::new().add_service(catalog1::serve(catalog.clone()));
        for how in ["borrowed", "shared", "owned"] {
            let args = Text::<64>::new(how).unwrap().encode_to_vec().unwrap();
            let reply = router
                .serve(
                    &call(4, true, &args),
                    &peer(),
                    HandlerDeadline::none(),
                    OutgoingReply::default(),
                )
                .await
                .unwrap();
            let [item] = reply.body.items() else {
                panic!("{how}: {:?}", reply.body);
            };
            assert_eq!(*item.bytes, [7; 100_000], "{how}");
            // Bytes that are not shared are copied once, so that RDMA can transfer them.
            assert_eq!(item.bytes.as_ptr() == picture, how != "borrowed", "{how}");
        }
    });
}

/// Converting borrowed results to owned ones does not change them or their item.
#[test]
fn both_shapes_have_one_encoding() {
    let picture = SharedBytes::from(vec![7; 5000]);
    let borrowed = CoverRes::True(Cover {
        name: Text::new("name").unwrap(),
        picture: picture.clone().into(),
    });
    let owned = owned::CoverRes::from(borrowed.clone());
    let bodies = [CoverResults::from(borrowed), CoverResults::from(owned)].map(|results| {
        let mut body = Body::new();
        body.encode(&results).unwrap();
        body
    });
    let [borrowed, owned] = &bodies;
    assert_eq!(borrowed.to_vec(), owned.to_vec());
    for body in &bodies {
        assert_eq!(body.items().len(), 1);
        assert_eq!(body.items()[0].bytes.as_ptr(), picture.as_ptr());
    }
}

#[test]
fn a_call_is_authorized_before_its_arguments_are_decoded() {
    run(async {
        let router = Router::new().add_service(catalog1::serve(Catalog::new()));
        let rubbish = [255; 8];
        // The last word of the header belongs to MSG_DENIED or to accept_stat.
        for (sys, last) in [(false, AuthStat::AuthTooweak.value()), (true, 4)] {
            let reply = router
                .serve(
                    &call(4, sys, &rubbish),
                    &peer(),
                    HandlerDeadline::none(),
                    OutgoingReply::default(),
                )
                .await
                .unwrap();
            assert_eq!(reply.header.last_chunk(), Some(&last.to_be_bytes()));
        }
    });
}

/// A service that is not `Send`.
struct OnOneThread(Rc<str>);

impl LocalService for OnOneThread {
    async fn list(&self, _: &Context, count: u32) -> Result<ListResults<'_>, RpcError> {
        let books: Result<ListBuf<_>, _> = (1..=count).map(book).collect();
        Ok(books?.into())
    }

    async fn name(&self, _: &Context) -> Result<NameResults<'_>, RpcError> {
        Ok(Text::new(&self.0)?.into())
    }

    async fn shorten(&self, _: &Context, _: Title<'_>) -> Result<ShortenResults<'_>, RpcError> {
        Ok(Text::new("")?.into())
    }

    async fn cover(&self, _: &Context, _: Title<'_>) -> Result<CoverResults<'_>, RpcError> {
        Ok(CoverRes::False.into())
    }

    async fn pictures(
        &self,
        _: &Context,
        _: PictureLengths,
    ) -> Result<PicturesResults<'_>, RpcError> {
        Ok(ListBuf::new().into())
    }

    async fn pair(&self, _: &Context, _: PictureLengths) -> Result<PairResults<'_>, RpcError> {
        let (first, second) = (Default::default(), Default::default());
        Ok(PicturePair { first, second }.into())
    }

    async fn weigh(&self, _: &Context, _: Album<'_>) -> Result<u32, RpcError> {
        Ok(0)
    }

    async fn count(&self, _: &Context) -> Result<u32, RpcError> {
        Ok(0)
    }

    async fn clear(&self, _: &Context) -> Result<(), RpcError> {
        Ok(())
    }
}

#[test]
fn a_local_service_returns_either_shape() {
    run(async {
        let service = catalog1::serve_local(OnOneThread("local".into()));
        let router = Router::new().add_service(service);
        for (procedure, args, expected) in [
            (1, &[0, 0, 0, 0][..], vec![0; 4]),
            (
                2,
                &[],
                Text::<64>::new("local").unwrap().encode_to_vec().unwrap(),
            ),
        ] {
            let call = call(procedure, false, args);
            let reply = router
                .serve_local(
                    &call,
                    &peer(),
                    HandlerDeadline::none(),
                    OutgoingReply::default(),
                )
                .await
                .unwrap();
            assert_eq!(reply.body.to_vec(), expected);
        }
    });
}
